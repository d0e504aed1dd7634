"""The engine: requests in, tokens out. Read `llm_engine` first."""
