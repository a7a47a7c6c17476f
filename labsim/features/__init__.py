"""What a draft reads of its target: hidden states, computed when needed or kept on disk."""
