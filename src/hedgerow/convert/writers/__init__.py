"""Writers of models in other formats, one file for each."""
