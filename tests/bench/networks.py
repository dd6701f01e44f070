"""
Makes the network files of a row: TorchScript for producers, so that nothing has to be compiled.

networks.py first-pixel OUTPUT                              takes pictures and uses one pixel of each
networks.py first-token OUTPUT --tokens N                   takes tokens and uses one of each text
networks.py pictures OUTPUT --images LIST --batch N --image-size N
                                                            returns the list's first pictures, in this size, for any
                                                            input
networks.py weights OUTPUT                                  random weights of DeepLabV3
networks.py results OUTPUT --network NAME --weights FILE --images LIST --batch N --image-size N [--classes]
                                                            returns that network's results of the list's first batch
                                                            for any input: scores, or
                                                            classes
networks.py encoder OUTPUT --folder FOLDER --tokens N --batch N    a sentence-transformers model for small rows; other
rows export one
"""

import argparse
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "peers"), str(HERE.parents[1] / "launch")]


class FirstPixel(torch.nn.Module):
    def forward(self, images):
        return images[:, 0, 0, :1]


class FirstToken(torch.nn.Module):
    def forward(self, tokens):
        return tokens[:, 0, :1].float()


class Results(torch.nn.Module):
    def __init__(self, results):
        super().__init__()
        self.register_buffer("results", results)

    def forward(self, images):
        return self.results


class Embedding(torch.nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens):
        return self.encoder(tokens)["embedding"]


def notes_of_tokens(output, tokens):
    output.with_suffix(".toml").write_text(f'input-shape = "2x{tokens}"\ninput-dtype = "int32"\n')


def first_pixel(options):
    torch.jit.script(FirstPixel()).save(options.output)


def first_token(options):
    torch.jit.script(FirstToken()).save(options.output)
    notes_of_tokens(options.output, options.tokens)


class Scores(torch.nn.Module):
    """Row by row, as a run's `--transform class-map` takes them; in bf16 they would be channels-last."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images):
        return self.network(images)["out"].clone(memory_format=torch.contiguous_format)


def lraspp():
    """LRASPP-MobileNetV3-Large with random weights, for the exporter."""
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    torch.manual_seed(1)
    return Scores(lraspp_mobilenet_v3_large(weights=None, weights_backbone=None).eval())


def large_pictures(options):
    from pictures import Pictures, list_pictures

    found = Pictures(list_pictures(options.images)[: options.batch], options.image_size)
    made = torch.stack([found[number][1] for number in range(options.batch)])
    torch.jit.script(Results(made)).save(options.output)


def weights(options):
    from safetensors.torch import save_file
    from torchvision.models.segmentation import deeplabv3_resnet50

    torch.manual_seed(1)
    save_file(deeplabv3_resnet50(weights=None, weights_backbone=None).state_dict(), options.output)


def results(options):
    from pictures import Pictures, list_pictures
    from segmentation import make_network

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    run = make_network(options.network, options.weights, "fp32", device)
    pictures = Pictures(list_pictures(options.images)[: options.batch], options.image_size)
    scores = [run(pictures[number][1][None].to(device)).cpu() for number in range(options.batch)]
    made = torch.cat([part.argmax(1).to(torch.uint8) for part in scores] if options.classes else scores)
    torch.jit.script(Results(made)).save(options.output)


def encoder(options):
    from exporter import sentences

    made = sentences.read(options.folder, options.tokens)
    rows = torch.stack(
        (
            torch.randint(made.vocabulary, (options.batch, made.tokens)),
            torch.ones(options.batch, made.tokens, dtype=torch.int64),
        ),
        1,
    ).int()
    torch.jit.trace(Embedding(made.network).eval(), rows, check_trace=False).save(options.output)
    notes_of_tokens(options.output, made.tokens)
    options.output.with_suffix(".tokenizer.json").write_text(made.tokenizer, encoding="utf-8")


def main():
    kinds = {
        "first-pixel": first_pixel,
        "first-token": first_token,
        "pictures": large_pictures,
        "weights": weights,
        "results": results,
        "encoder": encoder,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--network", choices=("cutout", "deeplabv3"))
    parser.add_argument("--weights", type=pathlib.Path)
    parser.add_argument("--images", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    for name in ("batch", "image-size", "tokens"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--classes", action="store_true")
    options = parser.parse_args()
    with torch.no_grad():
        kinds[options.kind](options)


if __name__ == "__main__":
    main()
