"""Writes tests/fixtures/pathfinder_sprites.json: SHA-256 over every paddle of Pathfinder, drawn and resized by Pillow.

    pip install pillow==13.0.0 numpy
    python3 tests/parity/make_pathfinder_fixtures.py

A paddle is what github.com/drewlinsley/pathfinder draws (draw_line_n_mask): a line on a canvas twice as large, dilated by a disc
for its mask, both resized by Lanczos. Line and resizing are Pillow's; scipy's imresize is Pillow's behind a spreading of the
values over 0 to 255, which is written out here, as is the dilation. Nothing differs: the hashes must be equal.

For each size and margin: `degrees`, the first paddles of -180 to 179 degrees; `ring`, the next paddles from each pixel of the
ring, sorted by (y, x). Hashed are, for one paddle after the other, the bytes of the line and those of the mask.
"""

import hashlib
import json
import pathlib

import numpy as np
from PIL import Image, ImageDraw

ANTIALIAS = 2
SIZES = {32: (2, 0.5, [1]), 64: (5, 1, [1]), 128: (5, 1.5, [2, 3]), 256: (5, 2, [3])}  # length, thickness, margins


def imresize(image, side):
    if image.dtype != np.uint8:
        low, high = image.min(), image.max()
        image = (((image - low) * (255.0 / ((high - low) or 1))).clip(0, 255) + 0.5).astype(np.uint8)
    return np.array(Image.fromarray(image).resize((side, side), Image.LANCZOS))


def dilate(image, radius):
    padded = np.full((len(image) + 2 * radius,) * 2, -np.inf)
    padded[radius:-radius, radius:-radius] = image
    result = np.full(image.shape, -np.inf)
    for y in range(2 * radius + 1):
        for x in range(2 * radius + 1):
            if (y - radius) ** 2 + (x - radius) ** 2 <= radius**2:
                result = np.maximum(result, padded[y : y + len(image), x : x + len(image)])
    return result


def paddle(length, thickness, margin, angle):
    half = length + int(np.ceil(thickness)) + margin
    center, side = half * ANTIALIAS, 2 * half + 1
    canvas = Image.new("F", (2 * center + 1,) * 2, "black")
    end = (
        int(np.ceil(center + float(length * ANTIALIAS) * np.cos(angle))),
        int(np.ceil(center + float(length * ANTIALIAS) * np.sin(angle))),
    )
    ImageDraw.Draw(canvas).line([(center, center), end], fill="white", width=int(np.round(thickness * ANTIALIAS)))
    canvas = np.array(canvas)
    mask = dilate(canvas, margin * ANTIALIAS).astype(np.uint8)
    return imresize(canvas, side).tobytes() + imresize(mask, side).tobytes()


def ring_angles(radius):
    angles = np.arange(0, 360, 360.0 / (2 * radius * np.pi)) * np.pi / 180
    pixels = np.unique(np.floor(radius * np.stack([np.sin(angles), np.cos(angles)], axis=1)).astype(int), axis=0)
    towards = np.arctan2(pixels[:, 0], pixels[:, 1])
    return [a + np.pi if a < 0 else a - np.pi for a in towards]  # a next paddle points back


def main():
    hashes = {}
    for size, (length, thickness, margins) in SIZES.items():
        for margin in margins:
            angles = {"degrees": [d * np.pi / 180 for d in range(-180, 180)], "ring": ring_angles(length + margin)}
            hashes[f"{size}, margin {margin}"] = {
                name: hashlib.sha256(b"".join(paddle(length, thickness, margin, a) for a in values)).hexdigest()
                for name, values in angles.items()
            }
    path = pathlib.Path(__file__).parent.parent / "fixtures" / "pathfinder_sprites.json"
    path.write_text(json.dumps(hashes, indent=2) + "\n")


if __name__ == "__main__":
    main()
