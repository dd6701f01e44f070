"""Compiled model packages."""

# The token inputs of a model of texts, and their supported types; the default is first.
TOKEN_DTYPES = {"ids": ("int64", "int32"), "mask": ("int64", "int32", "float32", "bool"), "types": ("int64", "int32")}
