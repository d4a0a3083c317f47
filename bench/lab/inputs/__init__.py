"""What the real programs are fed: scripts as they are, and generators of larger files."""
