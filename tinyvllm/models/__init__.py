"""Model architectures. `registry` maps the name in config.json to the class that implements it."""
