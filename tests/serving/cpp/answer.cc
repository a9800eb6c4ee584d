// Runs a SavedModel on rows without Python: what TF Serving does, in a hundred lines.
//
//   answer FOLDER SIGNATURE BATCH LIBRARY... < rows > answers
//
// Each LIBRARY is loaded first: TensorFlow's kernels (libtensorflow_cc.so.2 of the wheel) and, for
// models of text, the two operations of tensorflow-text. Each line is a row, and BATCH rows run
// together: the inputs in the order of their names, separated by tabs. In a text, a tab, a line
// break and a backslash are written \t, \n and \\; other bytes are written as they are. Numbers are
// separated by spaces, and rows shorter than the longest of a batch are padded with 0. Each answer
// is a line in the same format: the outputs in the order of their names. Errors are one sentence,
// with exit status 1.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"

namespace tf = tensorflow;

using Cells = std::vector<std::string>;

[[noreturn]] void Fail(const std::string& message) {
  std::cerr << "answer: " << message << std::endl;
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

Cells Split(const std::string& line) {
  Cells cells(1);
  for (char c : line) {
    if (c == '\t') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::string Unescaped(const std::string& cell) {
  std::string text;
  for (size_t i = 0; i < cell.size(); ++i) {
    if (cell[i] != '\\' || i + 1 == cell.size()) {
      text += cell[i];
    } else {
      char c = cell[++i];
      text += c == 't' ? '\t' : c == 'n' ? '\n' : c;
    }
  }
  return text;
}

std::string Escaped(const std::string& text) {
  std::string cell;
  for (char c : text) {
    cell += c == '\t' ? "\\t" : c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  }
  return cell;
}

// Converts a column of cells to an input: strings (B,) or int32 (B, S).
tf::Tensor Input(tf::DataType type, const Cells& cells) {
  const tf::int64 rows = cells.size();
  if (type == tf::DT_STRING) {
    tf::Tensor texts(type, {rows});
    for (int row = 0; row < rows; ++row) texts.vec<tf::tstring>()(row) = Unescaped(cells[row]);
    return texts;
  }
  if (type != tf::DT_INT32) Fail("an input is neither string nor int32");
  std::vector<std::vector<int>> ids(rows);
  size_t longest = 0;
  for (int row = 0; row < rows; ++row) {
    std::istringstream words(cells[row]);
    for (std::string word; words >> word;) {
      char* end;
      const long id = std::strtol(word.c_str(), &end, 10);
      if (*end || id != static_cast<int>(id)) Fail(word + " is not an id");
      ids[row].push_back(static_cast<int>(id));
    }
    longest = std::max(longest, ids[row].size());
  }
  tf::Tensor padded(type, {rows, static_cast<tf::int64>(longest)});
  auto matrix = padded.matrix<int>();
  matrix.setZero();
  for (int row = 0; row < rows; ++row) {
    for (size_t i = 0; i < ids[row].size(); ++i) matrix(row, i) = ids[row][i];
  }
  return padded;
}

// Formats one row of an output (B, ...).
std::string Cell(const tf::Tensor& output, int row, int rows) {
  const tf::int64 size = output.NumElements() / rows;
  std::string cell;
  for (tf::int64 i = row * size; i < (row + 1) * size; ++i) {
    if (!cell.empty()) cell += ' ';
    if (output.dtype() == tf::DT_STRING) {
      cell += Escaped(output.flat<tf::tstring>()(i));
    } else if (output.dtype() == tf::DT_INT32) {
      cell += std::to_string(output.flat<int>()(i));
    } else if (output.dtype() == tf::DT_FLOAT) {
      char number[32];
      std::snprintf(number, sizeof number, "%.9g", output.flat<float>()(i));
      cell += number;
    } else {
      Fail("an output is neither string, int32 nor float32");
    }
  }
  return cell;
}

int main(int count, char** arguments) {
  if (count < 4 || std::atoi(arguments[3]) < 1) {
    Fail("expected FOLDER SIGNATURE BATCH LIBRARY..., BATCH at least 1");
  }
  const std::string folder = arguments[1], signature = arguments[2];
  const size_t batch = std::atoi(arguments[3]);
  for (int i = 4; i < count; ++i) {
    void* handle;
    Check(tf::Env::Default()->LoadDynamicLibrary(arguments[i], &handle));
  }
  tf::SavedModelBundle bundle;
  Check(tf::LoadSavedModel({}, {}, folder, {"serve"}, &bundle));
  const auto& signatures = bundle.GetSignatures();
  const auto definition = signatures.find(signature);
  if (definition == signatures.end()) Fail(folder + " has no signature " + signature);
  std::map<std::string, tf::TensorInfo> inputs(
      definition->second.inputs().begin(), definition->second.inputs().end());
  std::map<std::string, std::string> outputs;
  for (const auto& [name, info] : definition->second.outputs()) outputs[name] = info.name();
  Cells fetched;
  for (const auto& [name, tensor] : outputs) fetched.push_back(tensor);

  std::string line;
  for (bool more = true; more;) {
    std::vector<Cells> columns(inputs.size());
    while (columns[0].size() < batch && (more = bool(std::getline(std::cin, line)))) {
      const Cells cells = Split(line);
      if (cells.size() != inputs.size()) {
        Fail("expected " + std::to_string(inputs.size()) + " inputs, but the line has " +
             std::to_string(cells.size()));
      }
      for (size_t i = 0; i < cells.size(); ++i) columns[i].push_back(cells[i]);
    }
    const int rows = columns[0].size();
    if (rows == 0) break;
    std::vector<std::pair<std::string, tf::Tensor>> fed;
    auto column = columns.begin();
    for (const auto& [name, info] : inputs) {
      fed.emplace_back(info.name(), Input(info.dtype(), *column++));
    }
    std::vector<tf::Tensor> answers;
    Check(bundle.session->Run(fed, fetched, {}, &answers));
    for (int row = 0; row < rows; ++row) {
      for (size_t i = 0; i < answers.size(); ++i) {
        std::cout << (i ? "\t" : "") << Cell(answers[i], row, rows);
      }
      std::cout << std::endl;
    }
  }
}
