"""Workloads: a measured profile becomes the forward pass, backward segments and buckets of a step."""

from __future__ import annotations

from pssim.workload.device import Device, load_device
from pssim.workload.profile import Profile, load_profile, save_profile
from pssim.workload.step import Bucket, StepWorkload, build_step

__all__ = [
    "Bucket",
    "Device",
    "Profile",
    "StepWorkload",
    "build_step",
    "load_device",
    "load_profile",
    "save_profile",
]
