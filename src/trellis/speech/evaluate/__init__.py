"""How far boundaries lie from a reference."""
