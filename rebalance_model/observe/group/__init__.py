"""What a group is, whatever told it: who is in it, who has what, who should have, and why that changed."""
