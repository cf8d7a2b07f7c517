"""OpenAI's Embeddings, served by Gemini's embedding models."""

from bridge.protocols.embedding import Embedding
from bridge.protocols.openai_embeddings.converter import embedding_to_gemini
from bridge.protocols.openai_embeddings.schema import EmbeddingsSchema

EMBEDDING = Embedding(
    paths=("/v1/embeddings",),
    schema=EmbeddingsSchema(),
    to_gemini=embedding_to_gemini,
    label="openai_embeddings",
)
