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


def open_tokenizer(path, length):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    token, number = padding_of(tokenizer)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=number, pad_token=token)
    return tokenizer


def padding_of(tokenizer):
    """What the file says, else a token by one of the usual names, else token 0: the mask leaves it out anyway."""
    said = tokenizer.padding
    if said:
        return said["pad_token"], said["pad_id"]
    for token in PADDING:
        number = tokenizer.token_to_id(token)
        if number is not None:
            return token, number
    return tokenizer.id_to_token(0), 0


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


def rows_of(tokenizer, texts):
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)     # the same without offsets, in newer versions
    rows = array.array("i")
    for encoded in encode(texts):
        rows.extend(encoded.ids)
        rows.extend(encoded.attention_mask)
    if sys.byteorder == "big":
        rows.byteswap()
    return rows.tobytes()


def reply(stream, kind, payload):
    stream.write(struct.pack("<II", kind, len(payload)) + payload)
    stream.flush()


def main(path, length):
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        tokenizer = open_tokenizer(path, int(length))
        reply(replies, GIVEN, struct.pack("<I", tokenizer.get_vocab_size()))
        while True:
            reply(replies, GIVEN, rows_of(tokenizer, read_request(requests)))
    except (EOFError, BrokenPipeError):
        return 0
    except Exception as problem:     # the library throws bare Exceptions
        reply(replies, REFUSED, f"{type(problem).__name__}: {problem}".encode())
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
