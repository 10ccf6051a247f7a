"""Category columns: levels, codes and target statistics."""
