"""Attention in pieces: each piece returns its output and its log-sum-exp, and pieces merge exactly."""
