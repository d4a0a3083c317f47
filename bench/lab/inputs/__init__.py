"""What the demo's programs are fed: scripts as they are, and two generators of larger files."""
