"""Each sample to s3://BUCKET/KEY.npy by fsspec. An object is there whole or not at all, and a second delivery puts the same."""

import io

import fsspec
import numpy
import offramp
from botocore import exceptions


class Uploader:
    """The keys are those of the environment (AWS_ACCESS_KEY_ID, ...). `endpoint`: of a server that is not Amazon's."""

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
            except (exceptions.ConnectionError, exceptions.HTTPClientError) as problem:     # away: tried again later, nothing is counted
                raise offramp.Retry(str(problem)) from problem
