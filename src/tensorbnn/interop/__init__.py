"""Between this library and others."""
