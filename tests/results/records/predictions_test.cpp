#include "results/records/predictions.h"

#include <gtest/gtest.h>

#include "tests/results/examples.h"

namespace lra {
namespace {

TEST(Predictions, AreReadWithAndWithoutConfidence) {
  const Predictions plain = parse_predictions("index,label,predicted\n0,4,0\n1,6,6\r\n2,4,4");
  EXPECT_EQ(plain.size(), 3);
  EXPECT_EQ(plain.correct(), 2);
  EXPECT_EQ(plain.classes(), (std::vector<int32_t>{4, 6}));
  EXPECT_TRUE(plain.confidence.empty());
  const Predictions confident =
      parse_predictions("index,label,predicted,confidence\n0,1,2,0.75\n1,0,0,1\n");
  EXPECT_EQ(confident.confidence, (std::vector<float>{0.75f, 1.0f}));
}

TEST(Predictions, OfPositionsNameTheirSamples) {
  const std::string header = "index,label,predicted,confidence,sample,position\n";
  const Predictions read =
      parse_predictions(header + "0,4,4,0.5,0,3\n1,5,4,0.25,0,7\n2,6,6,1,2,1\n");
  EXPECT_EQ(read.samples, (std::vector<int32_t>{0, 0, 2}));
  EXPECT_EQ(read.positions, (std::vector<int32_t>{3, 7, 1}));
  EXPECT_EQ(read.correct(), 2);
  for (const char* line : {"1,4,4,0.5", "1,4,4,0.5,0", "1,4,4,0.5,-1,2", "1,4,4,0.5,2,-1",
                           "1,4,4,0.5,0,3", "1,4,4,0.5,2,3,1"}) {
    EXPECT_TRUE(error_text<std::exception>([&] {
                  parse_predictions(header + "0,4,4,0.5,1,3\n" + line + "\n");
                }).starts_with("line 3: should be index 1"))
        << line;
  }
}

TEST(Predictions, NameTheLineThatIsWrong) {
  const auto reason = [](const std::string& text) {
    return error_text<std::exception>([&] { parse_predictions(text); });
  };
  const std::string plain = "index,label,predicted\n",
                    confident = "index,label,predicted,confidence\n";
  EXPECT_EQ(reason("a,b\n"),
            "line 1: should be 'index,label,predicted' or 'index,label,predicted,confidence', not "
            "\"a,b\"");
  EXPECT_EQ(reason(plain), "holds no predictions");
  EXPECT_EQ(reason(""), "holds no predictions");
  EXPECT_EQ(reason(plain + "0,1\n"),
            "line 2: should be index 0, a label, a prediction, not \"0,1\"");
  EXPECT_EQ(reason(confident + "0,1,1,nan\n"),
            "line 2: should be index 0, a label, a prediction and a confidence from 0 to 1, not "
            "\"0,1,1,nan\"");
  for (const char* line :
       {"2,1,1", "0,-1,1", "0,1,1,", "0,1,1,0.5", "0,1,1 ", "", "0,99999999999,1", "0,<script>,1"})
    EXPECT_TRUE(reason(plain + "0,1,1\n" + line + "\n").starts_with("line 3: should be index 1"))
        << line;
  EXPECT_TRUE(reason(plain + "0,1,1\n0,1,1\n").starts_with("line 3: ")) << "an index twice";
}

}  // namespace
}  // namespace lra
