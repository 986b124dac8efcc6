"""The gateway's HTTP listeners: the tenants' (OpenAI and Ollama dialects) and the operator's."""
