"""How contexts come from each other, drawn as lanes."""
