"""
Turns lines of text into rows of tokens. A producer starts this program and writes to its standard input.

    tokenizer_server.py TOKENIZER.json LENGTH PROMPT [CHUNK OVERLAP]

All numbers are little-endian. First, once: a reply with the size of the tokenizer's vocabulary (u32). Then, until the
input ends:

    request   u32 texts, u32 bytes of each, the texts in UTF-8
    reply     u32 0, u32 bytes, then for each text LENGTH ids and LENGTH of an attention mask, int32; then for each
              text 1 if it was cut, else 0, int32
              u32 1, u32 bytes, the error, in UTF-8; the program ends

With CHUNK and OVERLAP a request is one text, and the reply lists its chunks: for each, its first character and the one
after its last (u32 each; Unicode code points). A chunk has at most CHUNK tokens, including those that the tokenizer
adds to every text, and shares at most OVERLAP with the previous one. PROMPT, possibly empty, precedes each text and
each chunk.

Needs the `tokenizers` package, limited to one core: the producer starts as many of these processes as it can use.
Longer texts are cut; shorter ones are filled with the tokenizer's padding, which the mask excludes.
"""

import array
import os
import struct
import sys

GIVEN, REFUSED = 0, 1
PIECES_AT_ONCE = 64
PADDING = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")


class RowTokenizer:
    """
    Rows of `length` tokens, for texts of any length. The padding for each number of tokens is prepared: the library's
    own padding would take a tenth of its time.
    """

    def __init__(self, path, length, prompt=""):
        from tokenizers import Tokenizer

        self._tokenizer, self._prompt = Tokenizer.from_file(path), prompt
        padding = padding_of(self._tokenizer)
        self._tokenizer.enable_truncation(
            length, direction=(self._tokenizer.truncation or {}).get("direction", "right")
        )
        self._tokenizer.no_padding()
        # Newer versions have a faster call without offsets.
        self._encode = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
        self._paddings = [array.array("i", [padding]) * (length - tokens) for tokens in range(length + 1)]
        self._masks = [
            array.array("i", [1]) * tokens + array.array("i", [0]) * (length - tokens) for tokens in range(length + 1)
        ]

    def vocabulary(self):
        return self._tokenizer.get_vocab_size()

    def reply(self, texts):
        return b"".join(self._encoded(texts))

    def rows(self, texts):
        return self._encoded(texts)[0]

    def _encoded(self, texts):
        """(the rows, a flag for each text that was cut), as bytes."""
        rows, cut_texts = array.array("i"), array.array("i")
        for encoded in self._encode([self._prompt + text for text in texts] if self._prompt else texts):
            ids = encoded.ids
            cut_texts.append(bool(encoded.overflowing))
            rows.extend(ids)
            rows.extend(self._paddings[len(ids)])
            rows.extend(self._masks[len(ids)])
        if sys.byteorder == "big":
            rows.byteswap()
            cut_texts.byteswap()
        return rows.tobytes(), cut_texts.tobytes()


class Chunker:
    """Finds the places where texts are cut."""

    def __init__(self, path, tokens, overlap, prompt=""):
        from tokenizers import Tokenizer

        self._tokenizer, self._prompt = Tokenizer.from_file(path), prompt
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokens, self._overlap = tokens, overlap
        own = self._tokenizer.num_special_tokens_to_add(False) + len(
            self._tokenizer.encode(prompt, add_special_tokens=False).ids
        )
        self._most = tokens - own  # tokens left for the text
        if overlap >= self._most:
            raise ValueError(
                f"--chunk-overlap {overlap} is not less than what --chunk-tokens {tokens} leaves to a text: {max(self._most, 0)} tokens, as the model's "
                f"tokenizer{' and prompt put' if prompt else ' puts'} {own} around it"
            )

    def vocabulary(self):
        return self._tokenizer.get_vocab_size()

    def spans(self, text):
        """[(begin, end)] in characters: the first begins with the text, the last ends with it."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        offsets, words, most = encoded.offsets, encoded.word_ids, self._most
        while True:
            spans = cut(text, offsets, words, most, self._overlap)
            # A piece encoded alone may have more tokens than within its text.
            excess = self._largest(text, spans) - self._tokens
            if excess <= 0 or len(spans) == 1 or most == self._overlap + 1:
                return spans
            most = max(most - excess, self._overlap + 1)

    def _largest(self, text, spans):
        if len(spans) == 1:
            return 0
        return max(
            len(encoded.ids)
            for first in range(0, len(spans), PIECES_AT_ONCE)
            for encoded in self._tokenizer.encode_batch(
                [self._prompt + text[begin:end] for begin, end in spans[first : first + PIECES_AT_ONCE]]
            )
        )

    def reply(self, texts):
        places = array.array("I", [place for text in texts for span in self.spans(text) for place in span])
        if sys.byteorder == "big":
            places.byteswap()
        return places.tobytes()


def cut(text, offsets, words, most, overlap):
    """
    Spans of characters, each of at most `most` of the tokens at `offsets`. A span ends at the end of a word if it keeps
    half of its tokens, and begins at the beginning of one if it keeps a part of the overlap: preferably at white space,
    else between the tokenizer's words, else anywhere.
    """

    def begins_word(token):
        at = offsets[token][0]
        return at == 0 or text[at - 1].isspace() or text[at : at + 1].isspace()

    def begins_part(token):
        return words[token] != words[token - 1]

    def nearest(tokens, otherwise):
        return next((token for begins in (begins_word, begins_part) for token in tokens if begins(token)), otherwise)

    spans, first = [], 0
    while first + most < len(offsets):
        last = first + most
        behind = nearest(range(last, first + max(overlap, most // 2), -1), last)
        spans.append((offsets[first][0], offsets[behind - 1][1]))
        begin = behind - overlap
        first = max(nearest(range(begin, behind), begin) if overlap else behind, first + 1)
    spans.append((offsets[first][0] if spans else 0, len(text)))
    return [(0, spans[0][1]), *spans[1:]]


def padding_of(tokenizer):
    """The file's padding token, else one with a usual name, else token 0: the mask excludes it anyway."""
    padding = tokenizer.padding
    if padding:
        return padding["pad_id"]
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


def main(path, length, prompt, chunk=None, overlap=None):
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        tokenizer = (
            RowTokenizer(path, int(length), prompt)
            if chunk is None
            else Chunker(path, int(chunk), int(overlap), prompt)
        )
        reply(replies, GIVEN, struct.pack("<I", tokenizer.vocabulary()))
        while True:
            reply(replies, GIVEN, tokenizer.reply(read_request(requests)))
    except (EOFError, BrokenPipeError):
        return 0
    except Exception as problem:  # the library throws bare Exceptions
        reply(replies, REFUSED, f"{type(problem).__name__}: {problem}".encode())
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
