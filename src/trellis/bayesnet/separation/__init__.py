"""d-separation, with reasons."""
