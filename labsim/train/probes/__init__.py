"""What goes on inside a draft as it feeds on itself, and what happens when something about it is changed.

    attention   where a draft's attention goes: sink, recent tokens, own branch, entropy
    drift       the same and the sizes of its states, by depth, along a finished answer
    sink        which token, if any, the target's own attention rests on
    disturbed   noise on what a draft feeds itself, or its size held fixed
    places      training-time test for the places of an answer only, and the acceptance along it
    rendering   the same conversation in another template, without its first token, under another system message

The definitions are those of the attention-drift paper (arXiv 2605.09992).
"""
