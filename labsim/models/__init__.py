"""The target: a pretrained model as speculative decoding needs it.

Tokens in, logits and chosen hidden states out, and a KV cache that the caller can cut back after a rejection.
"""
