"""The `nano` target: a 7-million-parameter Llama, trained on a laptop from text that every Python installation carries.

The parts, in the order of reading: `corpus` (what it reads), `tokenizer` and `templates` (how text becomes tokens),
`recipe` (every number of the run), `packing` (conversations to rows), `loop` and `checkpoint` (the training),
`evaluate` (held-out perplexity and the entropy of the model's own answers), `export` (what is shipped).
"""
