// Many images on one, to look at.
#pragma once

#include "lra/data/prepared.h"
#include "lra/formats/image_files.h"

namespace lra {

/// The first `count` images of a split (fewer where it has fewer) in rows, each enlarged by a whole
/// factor to about 200 pixels a side at least, with its label in digits below. Samples are square
/// images, row by row, of ids that are grey values, or of three sequences that are red, green and
/// blue; throws Error where one is not square, or where there is none.
Image contact_sheet(const Split& split, int64_t count);

}  // namespace lra
