"""
Each sample to s3://BUCKET/KEY.npy with fsspec. An object is complete or absent, and a repeated delivery writes the same
object.
"""

import io

import fsspec
import numpy
import offramp
from botocore import exceptions


class Uploader:
    """Reads credentials from the environment (AWS_ACCESS_KEY_ID, ...). `endpoint`: a server other than Amazon's."""

    def __init__(self, bucket, endpoint=""):
        self._bucket = bucket
        self._files = fsspec.filesystem("s3", client_kwargs={"endpoint_url": endpoint} if endpoint else {})

    def __call__(self, slab):
        for sample, values in slab:
            file = io.BytesIO()
            numpy.save(file, values)
            slab.progress()
            try:
                self._files.pipe_file(f"{self._bucket}/{sample.key}.npy", file.getvalue())
            # unavailable: retried later, without counting a failure
            except (
                exceptions.ConnectionError,
                exceptions.HTTPClientError,
            ) as problem:
                raise offramp.Retry(str(problem)) from problem
