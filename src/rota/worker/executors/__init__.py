"""Executors: run handlers as coroutines, on threads or in child processes.

This file imports nothing, so that a child process loads only what it needs.
"""
