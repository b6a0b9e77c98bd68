"""Runs with the details that `tensorbnn.sample` has no arguments for, such as small files."""

from tensorbnn.sampling.api import begin_run


def sample_run(posterior, sampler=None, *, progress=True, **options):
    """Sample by the options of `begin_run`."""
    run, backend = begin_run(posterior, sampler, **options)
    return run.run(backend, progress=progress)
