"""What of a text a model's input takes, and the types that it can have; the default stands first."""

TOKEN_DTYPES = {"ids": ("int64", "int32"), "mask": ("int64", "int32", "float32", "bool"), "types": ("int64", "int32")}
