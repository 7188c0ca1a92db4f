"""Chains over tensors."""
