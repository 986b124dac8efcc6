"""The subset of the Ollama dialect that its client and Home Assistant use: /api/..."""
