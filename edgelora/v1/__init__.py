"""Generated from protos/edgelora/v1 by protos/generate.py. Do not edit."""
