#include "tests/support/catch.h"
#include "tests/unit/runtime/onnx/around_nodes.h"

/// Tests which pools and changes of size become layers of dlflow.
using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::file_of;
using test::imported;
using test::node;
using test::number;
using test::numbers_of;
using test::on_maps;
using test::OnFeatures;
using test::OnMaps;
using test::refusal;
using test::whole_numbers;
using test::with;

TEST_CASE("pools are square without dilation, with windows inside the map and its padding",
          "[onnx]") {
  const OnMaps of;
  const Message pool = with(node("MaxPool", {"x"}, "m"), "kernel_shape", {2, 2});
  const Layer plain = of.layer(pool);
  CHECK(plain.kind == LayerKind::MaxPool);
  CHECK(plain.kernel == Extent(2));
  CHECK(plain.stride == Extent(1));
  CHECK(plain.padding == Extent(0));
  const Layer full = of.layer(with(with(pool, "strides", {3, 3}), "pads", {1, 1, 1, 1}));
  CHECK(full.stride == Extent(3));
  CHECK(full.padding == Extent(1));
  CHECK(of.layer(with(pool, "dilations", {1, 1})).kind == LayerKind::MaxPool);
  CHECK(of.layer(with(pool, "auto_pad", "VALID")).padding == Extent(0));
  CHECK_THAT(of.refused(with(node("MaxPool", {"x"}, "m"), "kernel_shape", {2, 3})),
             Contains("dlflow's pools are square only, but its sides differ"));
  CHECK_THAT(of.refused(with(pool, "strides", {2, 1})), Contains("its strides differ"));
  CHECK_THAT(of.refused(with(pool, "pads", {0, 0, 1, 1})), Contains("its pads differ"));
  CHECK_THAT(of.refused(with(pool, "dilations", {2, 2})), Contains("have no dilation"));
  CHECK_THAT(of.refused(with(pool, "auto_pad", "SAME_UPPER")), Contains("depends on the size"));
  CHECK_THAT(of.refused(with(pool, "strides", {0, 0})), Contains("its sizes are below 1"));
  CHECK_THAT(of.refused(node("MaxPool", {"x"}, "m")), Contains("its sizes are below 1"));
  CHECK_THAT(of.refused(with(pool, "strides", {1'000'001, 1'000'001})),
             Contains("are not from 0 to 1,000,000"));
  CHECK_THAT(of.refused(with(pool, "strides", {-1, -1})), Contains("are not from 0 to 1,000,000"));
  CHECK_THAT(OnFeatures().refused(with(node("MaxPool", {"l"}, "y"), "kernel_shape", {2, 2})),
             Contains("dlflow's pools read (B,C,H,W) only, but this one gets (B,4)"));
}

TEST_CASE("a pool that rounds up is read if its windows lie inside the map", "[onnx]") {
  const auto rounds_up = [](int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
    const Message pool = with(with(node("MaxPool", {"x"}, "m"), "kernel_shape", {kernel, kernel}),
                              "strides", {stride, stride});
    const OnMaps of{{}, {-1, 3, size, size}};
    return of.refused(with(with(pool, "pads", {pad, pad, pad, pad}), "ceil_mode", 1));
  };
  CHECK(rounds_up(8, 2, 2, 0) == "none");
  CHECK_THAT(rounds_up(7, 2, 2, 0), Contains("lie half outside of the map (ceil_mode)"));
  CHECK(rounds_up(7, 3, 2, 1) == "none");
  CHECK_THAT(rounds_up(8, 3, 2, 0), Contains("lie half outside"));
  CHECK(rounds_up(3, 1, 3, 0) == "none");  // the window beyond the map is left out
}

TEST_CASE("means of pools count the padding as zeros", "[onnx]") {
  const OnMaps of{{whole_numbers("p", {0, 0, 1, 1, 0, 0, 1, 1}), number("one", 1),
                   whole_numbers("q", {0, 0, 1, 2, 0, 0, 1, 2}), number("zero", 0),
                   whole_numbers("none", {0, 0, 0, 0, 0, 0, 0, 0})}};
  const Message pool = with(node("AveragePool", {"x"}, "m"), "kernel_shape", {2, 2});
  CHECK(of.layer(pool).kind == LayerKind::AvgPool);
  const Message padded = with(pool, "pads", {1, 1, 1, 1});
  CHECK_THAT(of.refused(padded), Contains("counts padding as zeros, but this node leaves it out"));
  CHECK(of.layer(with(padded, "count_include_pad", 1)).padding == Extent(1));
  const Message behind = with(node("AveragePool", {"p1"}, "m"), "kernel_shape", {2, 2});
  const auto of_padded = [&](const Message& pad, const Message& pooled) {
    return of.file({pad, pooled});
  };
  const Message zeros = node("Pad", {"x", "p"}, "p1");
  CHECK(imported(of_padded(zeros, behind)).model.layers[1].padding == Extent(1));
  CHECK(
      imported(of_padded(node("Pad", {"x", "p", "zero"}, "p1"), behind)).model.layers[1].padding ==
      Extent(1));
  CHECK(imported(of_padded(node("Pad", {"x", "none"}, "p1"), behind)).model.layers[1].padding ==
        Extent(0));
  CHECK_THAT(refusal(of_padded(node("Pad", {"x", "q"}, "p1"), behind)),
             Contains("pads its input in a way that dlflow's pools cannot"));
  CHECK_THAT(refusal(of_padded(zeros, with(node("MaxPool", {"p1"}, "m"), "kernel_shape", {2, 2}))),
             Contains("pads its input in a way"));
  CHECK_THAT(
      refusal(of_padded(zeros, with(with(behind, "pads", {1, 1, 1, 1}), "count_include_pad", 1))),
      Contains("pads its input in a way"));
  CHECK_THAT(refusal(of_padded(node("Pad", {"x", "p", "one"}, "p1"), behind)),
             Contains("dlflow pads with zeros only"));
  CHECK_THAT(refusal(of_padded(with(zeros, "mode", "reflect"), behind)),
             Contains("dlflow pads with zeros only"));
  CHECK_THAT(refusal(of.file({zeros, behind,
                              with(node("AveragePool", {"p1"}, "n"), "kernel_shape", {2, 2}),
                              node("Add", {"m", "n"}, "z")})),
             Catch::Equals("none"));  // 'n' is not needed for the output
}

TEST_CASE("means of whole maps are global_avg_pool, or keep their dimensions", "[onnx]") {
  const auto kind = [](const std::vector<Message>& nodes, int64_t side = 8) {
    return imported(on_maps(nodes, {}, {-1, 3, side, side})).model.layers[1].kind;
  };
  CHECK(kind({node("GlobalAveragePool", {"x"}, "y")}, 1) == LayerKind::AdaptiveAvgPool);
  CHECK(kind({node("GlobalAveragePool", {"x"}, "g"), node("Flatten", {"g"}, "y")}) ==
        LayerKind::GlobalAvgPool);
  const Message mean = node("ReduceMean", {"x"}, "y");
  CHECK(kind({with(with(mean, "axes", {2, 3}), "keepdims", 0)}) == LayerKind::GlobalAvgPool);
  CHECK(kind({with(with(mean, "axes", {-1, -2}), "keepdims", 0)}) == LayerKind::GlobalAvgPool);
  CHECK(kind({with(mean, "axes", {2, 3})}, 1) == LayerKind::AdaptiveAvgPool);
  CHECK_THAT(refusal(on_maps({with(mean, "axes", std::vector<int64_t>{1})})),
             Contains("means of whole maps and of positions"));
  CHECK_THAT(refusal(file_of({node("GlobalAveragePool", {"x"}, "y")}, {}, {-1, 3})),
             Contains("it needs maps, (B,C,H,W), but gets (B,3)"));
  const Message global = node("GlobalAveragePool", {"x"}, "g");
  const auto squeezed = [&](std::vector<int64_t> axes) {
    return on_maps({global, with(node("Squeeze", {"g"}, "y"), "axes", std::move(axes))}, {},
                   {-1, 3, 8, 8}, 11);
  };
  CHECK(imported(squeezed({2, 3})).model.layers.size() == 2);
  CHECK(imported(squeezed({-1, -2})).model.layers.size() == 2);
  CHECK_THAT(refusal(squeezed(std::vector<int64_t>{2})),
             Contains("no layer that gives this shape"));
  CHECK_THAT(
      refusal(on_maps({with(node("Squeeze", {"x"}, "y"), "axes", {2, 3})}, {}, {-1, 3, 8, 8}, 11)),
      Contains("no layer that gives this shape"));
}

TEST_CASE("Resize repeats each pixel as a square", "[onnx]") {
  OnMaps of{{numbers_of("two", {4}, {1, 1, 2, 2}), numbers_of("odd", {4}, {1, 1, 2, 3}),
             numbers_of("half", {4}, {1, 1, 1.5f, 1.5f}),
             numbers_of("small", {4}, {1, 1, 0.5f, 0.5f}), numbers_of("batch", {4}, {2, 1, 2, 2}),
             numbers_of("five", {5}, {1, 1, 2, 2, 2}), whole_numbers("sizes", {1, 3, 24, 12}),
             whole_numbers("more", {1, 4, 24, 12}), whole_numbers("one_way", {1, 3, 24, 4})},
            {-1, 3, 8, 4}};
  const auto resize = [](const std::vector<std::string>& inputs) {
    return with(with(node("Resize", inputs, "m"), "coordinate_transformation_mode", "asymmetric"),
                "nearest_mode", "floor");
  };
  CHECK(of.layer(resize({"x", "", "two"})).kind == LayerKind::Upsample);
  CHECK(of.layer(resize({"x", "", "two"})).scale == 2);
  CHECK(of.layer(resize({"x", "", "", "sizes"})).scale == 3);
  CHECK(of.layer(node("Resize", {"x", "", "two"}, "m")).scale == 2);  // round_prefer_floor
  CHECK(of.layer(with(node("Upsample", {"x", "two"}, "m"), "mode", "nearest")).scale == 2);
  const std::string squares = "enlarges only by a whole number, the same in both directions";
  for (const char* scales : {"odd", "half", "small", "batch", "five"}) {
    CHECK_THAT(of.refused(resize({"x", "", scales})), Contains(squares));
  }
  CHECK_THAT(of.refused(resize({"x", "", "", "more"})), Contains(squares));
  CHECK_THAT(of.refused(resize({"x", "", "", "one_way"})), Contains(squares));
  const std::string nearest = "takes the nearest pixel only";
  CHECK_THAT(of.refused(with(node("Resize", {"x", "", "two"}, "m"), "mode", "linear")),
             Contains(nearest));
  CHECK_THAT(of.refused(with(node("Resize", {"x", "", "two"}, "m"),
                             "coordinate_transformation_mode", "align_corners")),
             Contains(nearest));
  CHECK_THAT(of.refused(with(node("Resize", {"x", "", "two"}, "m"),
                             "coordinate_transformation_mode", "asymmetric")),
             Contains(nearest));
  CHECK_THAT(of.refused(with(node("Resize", {"x", "", "two"}, "m"), "nearest_mode", "floor")),
             Contains(nearest));
  CHECK_THAT(OnFeatures{of.constants}.refused(node("Resize", {"l", "", "two"}, "y")),
             Contains("it needs maps"));
}
