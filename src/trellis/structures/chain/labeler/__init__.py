"""Estimators: ``SequenceLabeler`` and ``MEMM``."""
