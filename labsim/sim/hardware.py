"""GPUs as the three numbers a decode step feels: bandwidth, peak FLOP/s, memory.

A decode step reads every weight it needs once and multiplies it with a few rows. Reading takes bytes / bandwidth,
multiplying takes FLOPs / peak. They are equal at the **ridge**: with `bytes_per_weight` bytes moved and two FLOPs done
per weight and row,

    ridge rows = peak FLOP/s / bandwidth * bytes_per_weight / 2

(295 rows on an H100 in bf16). Below the ridge extra rows are nearly free, which is what speculation lives on. All peak
figures here are *dense*; datasheets often print twice as much, for 2:4 sparsity.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import check_positive, unknown_name

# Bytes per stored weight. Block scales are included for the 4-bit formats (NVFP4: one fp8 scale per 16 weights;
# MXFP4: one byte per 32; AWQ/GPTQ int4: fp16 scale and zero point per 128) and for DeepSeek-style fp8 (per 128 x 128).
BYTES_PER_WEIGHT = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "nvfp4": 0.5625,
    "mxfp4": 0.53125,
    "int4": 0.53125,
}
# In which arithmetic a GEMM with such weights runs where the GPU offers it. int4 weights (AWQ, GPTQ) are widened to 16
# bits first: they move a quarter of the bytes but multiply at bf16 speed, so their ridge lies four times lower.
MATH_OF = {
    "fp32": "bf16",
    "bf16": "bf16",
    "fp16": "bf16",
    "fp8": "fp8",
    "int8": "fp8",
    "nvfp4": "fp4",
    "mxfp4": "fp4",
    "int4": "bf16",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    `bandwidth` in bytes/s, `tflops` maps an arithmetic ("bf16", "fp8", "fp4") to dense TFLOP/s, `memory_gb` in 1e9
    bytes, `link_bandwidth` in bytes/s to the other GPUs, one direction (NVLink, Infinity Fabric, else PCIe). `source`
    says where the figures come from.
    """

    name: str
    memory_gb: float
    bandwidth: float
    tflops: dict[str, float] = field(hash=False)
    link_bandwidth: float
    source: str

    def __post_init__(self) -> None:
        check_positive("memory_gb", self.memory_gb)
        check_positive("bandwidth", self.bandwidth)
        check_positive("link_bandwidth", self.link_bandwidth)
        if "bf16" not in self.tflops:
            raise ValueError(f"tflops is {self.tflops}; allowed: a dict with at least the key 'bf16'")
        for math, value in self.tflops.items():
            check_positive(f"tflops[{math!r}]", value)

    def flops(self, dtype: str) -> float:
        """Peak dense FLOP/s of a GEMM whose weights are stored as `dtype`; falls back to the next wider arithmetic."""
        math = MATH_OF[check_dtype(dtype)]
        for wider in {"fp4": ("fp4", "fp8", "bf16"), "fp8": ("fp8", "bf16"), "bf16": ("bf16",)}[math]:
            if wider in self.tflops:
                return self.tflops[wider] * 1e12
        raise AssertionError("unreachable: bf16 is always present")

    def ridge_rows(self, dtype: str = "bf16") -> float:
        """GEMM rows at which computing takes as long as reading the weights."""
        return self.flops(dtype) / self.bandwidth * BYTES_PER_WEIGHT[check_dtype(dtype)] / 2


GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100", 80, 2.039e12, {"bf16": 312}, 300e9, "NVIDIA A100 80GB SXM datasheet"),
        Gpu("h100", 80, 3.35e12, {"bf16": 989.4, "fp8": 1979}, 450e9, "NVIDIA H100 SXM datasheet"),
        Gpu("h200", 141, 4.8e12, {"bf16": 989.4, "fp8": 1979}, 450e9, "NVIDIA H200 SXM datasheet"),
        Gpu(
            "b200",
            180,
            8.0e12,
            {"bf16": 2250, "fp8": 4500, "fp4": 9000},
            900e9,
            "NVIDIA DGX/HGX B200 datasheet; bandwidth quoted 7.7-8.0 TB/s, memory 180-192 GB",
        ),
        Gpu(
            "gb200",
            186,
            8.0e12,
            {"bf16": 2500, "fp8": 5000, "fp4": 10000},
            900e9,
            "NVIDIA GB200 NVL72 datasheet, per GPU (rack figures / 72)",
        ),
        # Printed dense bf16 figures for B300 run from 2,250 to 3,500 TFLOP/s. The lowest is taken: it is the one that
        # follows from B200 silicon, and a decode step is memory bound long before it matters.
        Gpu(
            "b300",
            288,
            8.0e12,
            {"bf16": 2250, "fp8": 4500, "fp4": 13500},
            900e9,
            "NVIDIA HGX B300 datasheet for memory and bandwidth; TFLOP/s disagree between sources (bf16 2250-3500)",
        ),
        Gpu("mi300x", 192, 5.3e12, {"bf16": 1307.4, "fp8": 2614.9}, 448e9, "AMD Instinct MI300X datasheet"),
        Gpu("mi355x", 288, 8.0e12, {"bf16": 2516, "fp8": 5033, "fp4": 10066}, 538e9, "AMD Instinct MI355X datasheet"),
        # GA102 tensor cores reach 142 TFLOP/s with fp16 accumulation, half of that with the fp32 accumulation
        # that inference kernels use.
        Gpu("rtx3090", 24, 0.936e12, {"bf16": 71}, 32e9, "NVIDIA GA102 whitepaper, appendix A (fp32 accumulate)"),
        Gpu(
            "rtx4090",
            24,
            1.008e12,
            {"bf16": 165.2, "fp8": 330.3},
            32e9,
            "NVIDIA Ada whitepaper, appendix A (fp32 accumulate)",
        ),
        Gpu(
            "rtxpro6000",
            96,
            1.792e12,
            {"bf16": 503.8, "fp8": 1007.6, "fp4": 2015.2},
            64e9,
            "NVIDIA RTX PRO 6000 Blackwell Workstation: 4000 AI TOPS are fp4 sparse, each step down halves it",
        ),
        Gpu("l40s", 48, 0.864e12, {"bf16": 362.05, "fp8": 733}, 32e9, "NVIDIA L40S datasheet"),
    )
}

_ALIASES = {
    "a100-80g": "a100",
    "a100-80gb": "a100",
    "a100-sxm": "a100",
    "h100-sxm": "h100",
    "h100-80gb": "h100",
    "h200-sxm": "h200",
    "b200-sxm": "b200",
    "3090": "rtx3090",
    "rtx-3090": "rtx3090",
    "4090": "rtx4090",
    "rtx-4090": "rtx4090",
    "rtx-pro-6000": "rtxpro6000",
    "rtx-6000-pro": "rtxpro6000",
}


def check_dtype(dtype: str) -> str:
    """`dtype` in lower case; ValueError with the nearest match if weights of that type are unknown."""
    key = str(dtype).strip().lower()
    key = {"bfloat16": "bf16", "float16": "fp16", "float8": "fp8", "awq": "int4", "gptq": "int4", "fp4": "nvfp4"}.get(
        key, key
    )
    if key not in BYTES_PER_WEIGHT:
        raise unknown_name("dtype", dtype, BYTES_PER_WEIGHT)
    return key


def find_gpu(gpu: str | Gpu) -> Gpu:
    """The GPU called `gpu`, whatever its case, spaces, underscores or vendor prefix; a Gpu passes through."""
    if isinstance(gpu, Gpu):
        return gpu
    key = str(gpu).strip().lower().replace("_", "-").replace(" ", "-")
    for vendor in ("nvidia-", "amd-", "instinct-"):
        key = key.removeprefix(vendor)
    key = _ALIASES.get(key, key)
    if key not in GPUS:
        raise unknown_name("gpu", str(gpu), GPUS)
    return GPUS[key]
