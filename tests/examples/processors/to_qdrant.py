"""Vectors into a Qdrant collection, by key: a repeated delivery replaces the same points."""

import uuid

from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams


class Collector:
    """
    `url`: a server, for any number of consumers; or `path`: a folder, which only one consumer can open (--consumers 1).
    """

    def __init__(self, collection, url=None, path=None):
        self._name = collection
        self._client = QdrantClient(url=url, path=path)

    def __call__(self, slab):
        points = [
            PointStruct(
                id=str(uuid.uuid5(uuid.NAMESPACE_URL, sample.key)), vector=vector.tolist(), payload={"key": sample.key}
            )
            for sample, vector in slab
        ]
        if points and not self._client.collection_exists(self._name):
            self._client.create_collection(
                self._name, VectorParams(size=len(points[0].vector), distance=Distance.COSINE)
            )
        self._client.upsert(self._name, points)

    def close(self):
        self._client.close()
