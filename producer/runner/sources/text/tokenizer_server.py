"""
Turns lines of text into rows of tokens for a producer, which starts this program and holds the other end of its standard input.

    tokenizer_server.py TOKENIZER.json LENGTH

Everything is little-endian. First and once: a reply that holds the tokenizer's number of tokens (u32). Then, until the input ends:

    request   u32 texts, u32 bytes of each, the texts in UTF-8
    reply     u32 0, u32 bytes, then for each text LENGTH ids and LENGTH of an attention mask, int32
              u32 1, u32 bytes, why it cannot be, in UTF-8; the program ends

Needs the `tokenizers` package, which is kept to one core: the producer starts as many of these as it has work for. Longer texts are cut, shorter
ones filled with the tokenizer's padding, which the mask leaves out.
"""

import array
import os
import struct
import sys

GIVEN, REFUSED = 0, 1
PADDING = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")


class RowTokenizer:
    """Rows of `length` tokens, of texts of any length. What a text's own tokens are filled up with is ready, by their number: the library's own
    filling would take a tenth of its time."""

    def __init__(self, path, length):
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(path)
        padding = padding_of(self._tokenizer)
        self._tokenizer.enable_truncation(length)
        self._tokenizer.no_padding()
        # The same without offsets, in newer versions.
        self._encode = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
        self._paddings = [array.array("i", [padding]) * (length - tokens) for tokens in range(length + 1)]
        self._masks = [array.array("i", [1]) * tokens + array.array("i", [0]) * (length - tokens) for tokens in range(length + 1)]

    def vocabulary(self):
        return self._tokenizer.get_vocab_size()

    def rows(self, texts):
        rows = array.array("i")
        for encoded in self._encode(texts):
            ids = encoded.ids
            rows.extend(ids)
            rows.extend(self._paddings[len(ids)])
            rows.extend(self._masks[len(ids)])
        if sys.byteorder == "big":
            rows.byteswap()
        return rows.tobytes()


def padding_of(tokenizer):
    """The token that the file says, else one by a usual name, else token 0: the mask leaves it out anyway."""
    said = tokenizer.padding
    if said:
        return said["pad_id"]
    return next((number for token in PADDING if (number := tokenizer.token_to_id(token)) is not None), 0)


def read_exactly(stream, size):
    """Errors: EOFError when the producer is gone."""
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def read_request(stream):
    (texts,) = struct.unpack("<I", read_exactly(stream, 4))
    sizes = struct.unpack(f"<{texts}I", read_exactly(stream, 4 * texts))
    return [read_exactly(stream, size).decode() for size in sizes]


def reply(stream, kind, payload):
    stream.write(struct.pack("<II", kind, len(payload)) + payload)
    stream.flush()


def main(path, length):
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        tokenizer = RowTokenizer(path, int(length))
        reply(replies, GIVEN, struct.pack("<I", tokenizer.vocabulary()))
        while True:
            reply(replies, GIVEN, tokenizer.rows(read_request(requests)))
    except (EOFError, BrokenPipeError):
        return 0
    except Exception as problem:     # the library throws bare Exceptions
        reply(replies, REFUSED, f"{type(problem).__name__}: {problem}".encode())
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
