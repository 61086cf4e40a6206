// The names of the files and folders that runs, suites and reports leave.
#pragma once

namespace lra {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kPredictionsFile = "predictions-test.csv";
inline constexpr const char* kResultFile = "result.json";
// Of a suite's cell, a line of JSON a try; not called *.jsonl, as files of records are.
inline constexpr const char* kTriesFile = "tries.log";

// The folder, in a run's own, of the run that comes before it (pretraining_config()).
inline constexpr const char* kPretrainingFolder = "pretraining";

// Of a report: the last file to be written.
inline constexpr const char* kReportFile = "report.md";
inline constexpr const char* kReportPage = "report.html";

// A suite's file, in the folder that holds runs/TASK/ATTENTION/seedN.
inline constexpr const char* kSuiteFile = "suite.json";
inline constexpr const char* kSuiteSchema = "lra.suite/1";
inline constexpr int kLevelsBelowSuite = 4;
// Beside it: of runs, of who runs them, and of a cluster's job scripts.
inline constexpr const char* kRunsFolder = "runs";
inline constexpr const char* kRunnersFolder = "runners";
inline constexpr const char* kSlurmFolder = "slurm";

// A search's, of lra tune.
inline constexpr const char* kTuneFile = "tune.json";

}  // namespace lra
