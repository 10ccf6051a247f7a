"""The one door for tables; bins and binned matrices."""
