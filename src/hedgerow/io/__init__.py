"""Write, read and validate model files."""

from hedgerow.io.model_file import load_model, model_from_bytes, model_to_bytes, save_model

__all__ = ["load_model", "model_from_bytes", "model_to_bytes", "save_model"]
