"""labsim: a lab course on speculative decoding."""

__version__ = "0.1.0"
