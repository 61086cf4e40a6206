// The examples behind a run's predictions, from the prepared data that it was trained on.
#pragma once

#include "results/report/run_page.h"

namespace lra {

/// Reads examples of the test split as the run's config.json names it, where that folder is there
/// and its data still have the fingerprint of the record: as text, or as PNG pictures. Opened data
/// are kept for the next run. Never throws: Sample::missing says why there is none.
SampleReader prepared_samples();

}  // namespace lra
