"""The peak of a training step: the largest of the moments at which memory can be fullest.

    forward      all steps' activations and log-softmaxes, the teacher, and the last step's logits being made
    logits j     backward of step j's loss: steps 0..j are still whole; behind the first, gradients lie beside them
    layer j      backward of step j's layer: its logits are gone, its largest intermediates' gradients are there;
                 with checkpointing the layer is whole again, the only one
    optimizer    gradients, and what the update needs beside weights and moments

`peak` names the moment that it found. See `labsim.train.ttt.memory` for the terms and how far they hold.
"""

from __future__ import annotations

from .memory import (
    FP32,
    PARTS,
    TEACHER_ROWS,
    WHOLE_VOCABULARY,
    DraftShape,
    StepBytes,
    StepSetting,
    kept_tensors,
    state_width,
    step_tensors,
)


def peak(shape: DraftShape, setting: StepSetting) -> StepBytes:
    """Bytes of one rank at the worst moment of a step, the draft's weights, moments and input states included."""
    step = _Step(shape, setting)
    moments = step.moments()
    totals = {name: sum(parts.values()) for name, parts in moments.items()}
    worst = max(totals, key=totals.__getitem__)
    return StepBytes(moments[worst], sum(step.resident().values()), worst, totals)


def resident(shape: DraftShape, setting: StepSetting) -> dict[str, float]:
    """Bytes of one rank before a step, by part: weights, moments, the row's states."""
    return _Step(shape, setting).resident()


class _Step:
    """One step's sums, by part of `PARTS`."""

    def __init__(self, shape: DraftShape, setting: StepSetting) -> None:
        self.shape, self.setting = shape, setting
        self.length, self.places = setting.local_positions, setting.local_places
        self.chunked = bool(setting.logit_chunk)
        self.recomputed = setting.checkpointing and shape.kind != "heads"  # heads have no layer to compute again
        self.logit = self.places * shape.rows * FP32  # one (P, N) in float32

    # --- what lies there -------------------------------------------------------------------------------------------

    def resident(self) -> dict[str, float]:
        """Weights, moments and the target's states, before the step."""
        shape, setting = self.shape, self.setting
        trained = shape.parameters(setting.ttt)
        adam = trained if setting.optimizer == "adamw" else trained - sum(self.by_muon().values())
        states = (shape.feature_width + shape.target_hidden) * setting.state_bytes
        return {
            "parameters": (trained + shape.borrowed()) * FP32,
            "optimizer": 2 * adam * FP32 + (trained - adam) * FP32,
            "features": self.length * states,
        }

    def by_muon(self) -> dict[str, int]:
        """Matrices that Muon trains, with one moment; the rest has AdamW's two."""
        if self.setting.optimizer == "adamw":
            return {}
        matrices = self.shape.matrices(self.setting.ttt)
        # The parallel heads' own heads carry no name that sets them apart, so Muon trains them.
        return matrices if self.shape.kind == "heads" else {k: v for k, v in matrices.items() if k != "head"}

    def weights_cast(self, layer: bool = True) -> float:
        """Autocast's copies of the matrices, which backward reads.

        A borrowed head is cast anew in every step, a chunk's cast dies with the chunk, and the casts of a layer that is
        computed again live while it is (`layer`).
        """
        if not self.setting.bf16:
            return 0.0
        shape, setting = self.shape, self.setting
        matrices = shape.matrices(setting.ttt)
        head = setting.ttt * shape.vocab * shape.hidden if shape.kind in WHOLE_VOCABULARY else matrices.pop("head", 0)
        of_layer = sum(number for name, number in matrices.items() if name != "head")
        return 2.0 * ((of_layer if layer or not self.recomputed else 0) + (0 if self.chunked else head))

    # --- activations -----------------------------------------------------------------------------------------------

    def at_places(self) -> float:
        """Per step, where it is judged: the head's input, EAGLE-1's distance to the target's state, indices."""
        shape, setting = self.shape, self.setting
        head_input = shape.hidden * setting.compute
        if self.chunked and shape.kind != "eagle1":
            head_input = shape.hidden * FP32  # a chunk keeps what it was given, and narrows it inside
        elif shape.kind == "mtp" or (shape.kind == "eagle1" and setting.bf16 and not self.chunked):
            head_input = 0  # a borrowed head has no gradient that needs its input
        indices = 40
        own = self.distance() if shape.kind == "eagle1" else 0.0
        return self.places * (head_input + indices) + own

    def layer(self, step: int) -> float:
        return self.length * sum(step_tensors(self.shape, self.setting, step).values())

    def kept(self, step: int) -> float:
        """What step `step` leaves behind for backward."""
        if not self.recomputed:
            return self.layer(step) + self.at_places()
        # Nothing reads the state, keys and values of the last step.
        tensors = kept_tensors(self.shape, self.setting) if step < self.setting.ttt - 1 else {}
        return self.length * sum(tensors.values()) + self.at_places()

    def local(self) -> float:
        """What forward holds of its last step, and backward no longer."""
        shape, setting = self.shape, self.setting
        held = self.length * (shape.hidden * FP32 if shape.kind == "heads" else state_width(shape, setting))
        if self.recomputed:
            held += self.length * sum(kept_tensors(shape, setting).values())
        if shape.kind == "eagle1":  # the distance comes after the logits
            held -= self.distance()
            held += 0 if self.chunked or not setting.bf16 else self.places * shape.hidden * 2
        elif not self.chunked and (setting.bf16 or shape.kind == "mtp"):
            held += self.places * shape.hidden * FP32
        return held

    def distance(self) -> float:
        """EAGLE-1: its output and the target's state, per step."""
        return self.places * self.shape.hidden * (FP32 + (FP32 if self.setting.bf16 else 0))

    def entry(self) -> float:
        """The state of step 0 where a product makes it: the fused taps."""
        return self.length * self.shape.hidden * FP32 if self.shape.kind.startswith("eagle3") else 0.0

    def taps(self, forward: bool) -> float:
        """Copies of the target's states that a step makes: those it saves, and in forward those it only reads."""
        shape, setting = self.shape, self.setting
        f, e = shape.feature_width, shape.target_hidden
        # What needs no gradient is not saved before a norm: the normed values are, for the norm's weight.
        saved = {
            "eagle3": f * setting.compute,
            "eagle3.1": f * FP32 + f * setting.compute,
            "heads": 0 if setting.bf16 else f * FP32,
        }.get(shape.kind, 0)
        wide = not setting.bf16 and shape.kind in ("eagle3", "heads")  # the float32 copy itself is what is saved
        read = (0 if wide else f * FP32) + e * FP32
        return self.length * (e * setting.state_bytes + saved + (read if forward else 0))

    def handed_on(self, step: int) -> float:
        """The state that only the next step saved, which has left when backward comes to this one."""
        return step_tensors(self.shape, self.setting, step).get("state handed on", 0.0)

    def in_flight(self, step: int, weight: float) -> float:
        """Above what a layer saved, while it is gone through backwards; `weight` is one matrix's new gradient."""
        shape, setting = self.shape, self.setting
        h, ff = shape.hidden * FP32, shape.intermediate * setting.compute
        if shape.kind == "heads":
            return self.length * shape.hidden * (FP32 + setting.compute) + weight
        later = 0.0
        if step < setting.ttt - 1:  # of the state, keys and values, from the later steps
            later = h + (step + 1) * 2 * shape.kv_heads * shape.head_dim * setting.compute
        # Of a norm: three of its width. Of the feed-forward: three gradients beside three of its four tensors, and the
        # last norm's two are gone. Of attention: dq, and in float32 query, output, their gradients and products, when
        # the feed-forward is gone.
        attention = shape.heads * shape.head_dim * (28 if setting.bf16 else 24) - 4 * ff
        flight = self.length * max(3 * h, 2 * ff - 2 * h, attention)
        if setting.attention == "naive":
            flight = max(flight, 2 * self.scores(step) - self.length * 4 * ff)
        flight += weight
        if self.recomputed:  # while it is computed again: embedding, a norm's square, wide inputs of narrow products
            wide = {"eagle3": 3, "eagle3.1": 3, "mtp": 2, "eagle1": 1}[shape.kind] if setting.bf16 else 0
            flight = max(flight, self.length * (2 + wide) * h)
        return flight + self.length * (h + later)

    def scores(self, step: int) -> float:
        """One naive score matrix."""
        return self.shape.heads * self.length * (step + 1) * self.length * self.setting.compute

    # --- logits ----------------------------------------------------------------------------------------------------

    def logits_made(self) -> float:
        """Beside the saved log-softmaxes, while a step's logits or their gradients are made."""
        if not self.chunked:
            return 2 * self.logit
        chunk, whole = self.chunk_bytes()
        return max(4 * chunk, 2 * chunk + whole, 1.5 * chunk + self.chunk_cast())

    def chunk_bytes(self) -> tuple[float, float]:
        """(C, N) in float32, and the target's logits of which a chunk's p is made."""
        c = min(self.setting.logit_chunk, self.places)
        return c * self.shape.rows * FP32, min(c, TEACHER_ROWS) * self.shape.vocab * FP32

    def chunk_cast(self) -> float:
        """The head as autocast narrows it for one chunk."""
        return self.shape.rows * self.shape.hidden * 2.0 if self.setting.bf16 else 0.0

    def logits_backward(self, step: int) -> float:
        """Gradients of a step's logits, above its saved log-softmax; then that is gone and the head's gradient new."""
        setting = self.setting
        if not self.chunked:
            # Added to the later steps' sum, it takes a third tensor.
            new = (1 if step == setting.ttt - 1 or self.shape.kind == "heads" else 2) * self.head_matrix()
            return max(2 * self.logit, new * setting.compute - self.logit)
        # A chunk's gradient of the head is added to the sum of those before it into a third one.
        chunk, whole = self.chunk_bytes()
        head = self.head_matrix()
        product = self.chunk_cast() + max(3 * chunk, 2 * chunk + head * setting.compute)
        return max(2 * chunk + whole, product, 2 * head * FP32)

    def head_matrix(self) -> int:
        """Parameters of the head that one step trains."""
        steps = self.setting.ttt if self.shape.kind == "heads" else 1
        return self.shape.matrices(self.setting.ttt).get("head", 0) // steps

    def saved_logits(self, steps: int) -> float:
        return 0.0 if self.chunked else steps * self.logit

    # --- moments ---------------------------------------------------------------------------------------------------

    def moments(self) -> dict[str, dict[str, float]]:
        """Parts by moment."""
        shape, setting = self.shape, self.setting
        trained = shape.parameters(setting.ttt) * FP32
        last = setting.ttt - 1
        teacher = 0.0 if self.chunked else self.logit
        before = trained if setting.rows > 1 else 0.0
        kept = [self.kept(step) for step in range(setting.ttt)]
        found: dict[str, dict[str, float]] = {}

        def moment(
            name: str, gradients: float, logits: float, activations: float, *, forward: bool = False, cast: bool = True
        ) -> None:
            extra = {
                "gradients": before + gradients,
                "features": self.taps(forward),
                "teacher": teacher,
                "logits": logits,
                "activations": activations + self.entry() + self.weights_cast(cast),
            }
            parts = dict.fromkeys(PARTS, 0.0)
            for addend in (self.resident(), extra):
                for part, amount in addend.items():
                    parts[part] += amount
            found[name] = parts

        # Two chunks of the target's logits are alive, or the last one while p is put together; no tap is copied yet.
        two, one = (min(count, self.places) * shape.vocab * FP32 for count in (TEACHER_ROWS, TEACHER_ROWS // 2))
        not_yet = self.taps(False) - self.length * shape.target_hidden * setting.state_bytes
        moment("teacher", 0.0, max(two, one + teacher), -self.entry() - self.weights_cast() - not_yet)
        logits = self.saved_logits(setting.ttt) + self.logits_made()
        moment("forward", 0.0, logits, sum(kept) + self.local(), forward=True)
        if setting.attention == "naive" and not setting.checkpointing:
            made = sum(kept) + 2 * self.scores(last) - self.length * 4 * shape.intermediate * setting.compute
            moment("scores", 0.0, self.saved_logits(last), made, forward=True)
        stream = self.length * shape.hidden * FP32
        for step in {last, max(0, last - 1), 0}:
            sums, here = self.gradients_behind(step), sum(kept[:step])
            made = self.saved_logits(step + 1) + self.logits_backward(step)
            if self.chunked and step == last:  # the sum of the chunks so far
                made += self.head_matrix() * FP32
            moment(f"logits {step}", sums, made, here + kept[step] + stream, cast=False)
            # New gradient and third tensor of a sum; a layer that is computed again is fullest before either is there.
            new = (1 if self.recomputed else 2) * shape.largest(layer=True)
            first = (self.head_matrix() if step == last else new) * setting.compute
            whole = self.layer(step) + self.in_flight(step, first) - self.length * self.handed_on(step)
            moment(f"layer {step}", sums, self.saved_logits(step), here + whole)
        moment("end of backward", trained, 0.0, -self.weights_cast())
        update = self.update_bytes()
        moment("optimizer", trained - before + update, 0.0, 0.0)
        found["optimizer"]["activations"] = 0.0
        return found

    def gradients_behind(self, step: int) -> float:
        """Gradients when backward comes to `step`: of the layer and the head, once it has left a later step."""
        shape, setting = self.shape, self.setting
        later = setting.ttt - 1 - step
        matrices = shape.matrices(setting.ttt)
        if shape.kind == "heads":
            return later / setting.ttt * shape.parameters(setting.ttt) * FP32
        if not later:
            return 0.0
        # The fusion of the taps is behind step 0 and comes last.
        layer = sum(n for name, n in matrices.items() if not (name == "join" and shape.kind.startswith("eagle3")))
        # Under autocast a cast weight's gradients are summed in its own precision, and widened at the end.
        return layer * setting.compute + matrices.get("head", 0) * (FP32 - setting.compute) * self.chunked

    def update_bytes(self) -> float:
        """Muon's orthogonalisation of one matrix; AdamW updates in place."""
        if self.setting.optimizer == "adamw":
            return 0.0
        heads = self.shape.hidden * self.shape.draft_vocab if self.shape.kind == "heads" else 0
        return max(self.shape.largest(), heads) * (FP32 + 3 * 2)
