#include "kernels/chain_form.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "chain_recipe.hpp"

namespace ai::kernels::chain {
namespace {

// Of each kernel but the first, whose shapes are many: the estimate knows the best of the few, and
// large texts take long to compile.
constexpr std::size_t kMostOfOthers = 4;

struct Estimated {
  Form form = {};
  double us = 0;
};

/// The best of one kernel first.
template <typename Shapes>
std::vector<Estimated> in_order(const Network& network, const Machine& machine,
                                const Shapes& shapes) {
  std::vector<Estimated> all;
  for (const auto& shape : shapes) all.push_back({shape, estimate_us(network, shape, machine)});
  std::stable_sort(all.begin(), all.end(),
                   [](const Estimated& a, const Estimated& b) { return a.us < b.us; });
  return all;
}

Specification specification_of(const Shape& shape) {
  return {"kernels/chain_layout.hpp", "Shape", initializer_of(shape), "kernels/chain_slab.cuh",
          false};
}

Specification specification_of(const RowsShape& shape) {
  return {"kernels/chain_rows_layout.hpp", "RowsShape", initializer_of(shape),
          shape.rows == 1 ? "kernels/chain_lines.cuh" : "kernels/chain_rows.cuh", true};
}

Specification specification_of(const GridShape& shape) {
  return {"kernels/chain_grid_layout.hpp", "GridShape", initializer_of(shape),
          "kernels/chain_grid.cuh", true};
}

Specification specification_of(const TilesShape& shape) {
  return {"kernels/chain_tiles_layout.hpp", "TilesShape", initializer_of(shape),
          "kernels/chain_tiles.cuh", true};
}

}  // namespace

std::string name_of(const Form& form) {
  return std::visit([](const auto& shape) { return name_of(shape); }, form);
}

std::string recipe_of(const Form& form) {
  return std::visit([](const auto& shape) { return recipe_of(shape); }, form);
}

std::optional<Form> parse_form(std::string_view recipe) {
  if (const auto shape = parse_recipe(recipe)) return *shape;
  if (const auto shape = parse_rows_recipe(recipe)) return *shape;
  if (const auto shape = parse_grid_recipe(recipe)) return *shape;
  if (const auto shape = parse_tiles_recipe(recipe)) return *shape;
  return std::nullopt;
}

std::string reason_against(const Network& network, const Form& form, const Machine& machine) {
  return std::visit([&](const auto& shape) { return reason_against(network, shape, machine); },
                    form);
}

double estimate_us(const Network& network, const Form& form, const Machine& machine) {
  return std::visit([&](const auto& shape) { return estimate_us(network, shape, machine); }, form);
}

std::vector<Form> forms_for(const Network& network, const Machine& machine, std::size_t count,
                            bool cooperative) {
  std::vector<Estimated> kernels[] = {
      in_order(network, machine, shapes_for(network, machine, count)),
      in_order(network, machine, rows_shapes(network, machine)),
      in_order(network, machine, grid_shapes(network, machine)),
      in_order(network, machine, tiles_shapes(network, machine)),
  };
  for (std::vector<Estimated>& mine : std::span(kernels).subspan(1)) {
    mine.resize(std::min(mine.size(), kMostOfOthers));
  }
  std::vector<Estimated> firsts;
  std::vector<Estimated> others;
  for (std::vector<Estimated>& mine : kernels) {
    std::erase_if(mine, [&](const Estimated& each) {
      return !cooperative && launch_shape(network, each.form).cooperative;
    });
    for (std::size_t i = 0; i < mine.size(); ++i) {
      (i == 0 ? firsts : others).push_back(std::move(mine[i]));
    }
  }
  const auto quicker = [](const Estimated& a, const Estimated& b) { return a.us < b.us; };
  std::stable_sort(firsts.begin(), firsts.end(), quicker);
  std::stable_sort(others.begin(), others.end(), quicker);
  firsts.resize(std::min(firsts.size(), count));
  others.resize(std::min(others.size(), count - firsts.size()));
  firsts.insert(firsts.end(), others.begin(), others.end());
  std::stable_sort(firsts.begin(), firsts.end(), quicker);
  std::vector<Form> forms;
  for (const Estimated& each : firsts) forms.push_back(each.form);
  return forms;
}

std::string source_of(const Network& network, const Form& form) {
  return std::visit([&](const auto& shape) { return source_of(network, specification_of(shape)); },
                    form);
}

LaunchShape launch_shape(const Network& network, const Form& form) {
  return std::visit([&](const auto& shape) { return launch_shape(network, shape); }, form);
}

std::size_t state_bytes(const Network& network, const Form& form) {
  if (const auto* const grid = std::get_if<GridShape>(&form)) return state_bytes(network, *grid);
  if (const auto* const tiles = std::get_if<TilesShape>(&form)) return state_bytes(network, *tiles);
  return 0;
}

}  // namespace ai::kernels::chain
