// Bad input of the json form: every case with its exact message.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "src/chain/chain.h"
#include "src/chain/op.h"

namespace sinter {
namespace {

struct BadInput {
  const char* input;
  const char* message;
};

// clang-format off
const BadInput kBadInputs[] = {
    {R"x()x",
     R"x(json: line 1, column 1: syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal)x"},
    {R"x({)x",
     R"x(json: line 1, column 2: syntax error while parsing object key - unexpected end of input; expected string literal)x"},
    {"{\"schema\": 1,\n \"inputs\": [\n  {\"id\": 0,, \"dtype\": \"f32\"}]}",
     R"x(json: line 3, column 12: syntax error while parsing object key - unexpected ','; expected string literal)x"},
    {R"x({"schema":1}})x",
     R"x(json: line 1, column 13: syntax error while parsing value - unexpected '}'; expected end of input)x"},
    {R"x({"schema":1e999})x",
     R"x(json: line 1, column 15: number overflow parsing '1e999')x"},
    {R"x([1])x",
     R"x(json: must be an object)x"},
    {R"x({"schema":1})x",
     R"x(inputs: missing)x"},
    {R"x({"inputs":[],"ops":[],"outputs":[]})x",
     R"x(schema: missing)x"},
    {R"x({"schema":2,"inputs":[],"ops":[],"outputs":[]})x",
     R"x(schema: is 2, must be 1)x"},
    {R"x({"schema":"1","inputs":[],"ops":[],"outputs":[]})x",
     R"x(schema: must be an integer of at most 2^53)x"},
    {R"x({"schema":1,"schema":1,"inputs":[],"ops":[],"outputs":[]})x",
     R"x(json: line 1, column 20: key schema is given twice in one object)x"},
    {"{\"schema\":1,\n\"inputs\":[{\"id\":0,\n \"id\":0}]}",
     R"x(json: line 3, column 5: key id is given twice in one object)x"},
    {R"x(7)x",
     R"x(json: must be an object)x"},
    {R"x({"schema":{},"inputs":[],"ops":[],"outputs":[]})x",
     R"x(schema: must be an integer of at most 2^53)x"},
    {R"x({"schema":[1],"inputs":[],"ops":[],"outputs":[]})x",
     R"x(schema: must be an integer of at most 2^53)x"},
    {R"x({"schema":1,"inputs":[],"ops":[],"outputs":[],"extra":0})x",
     R"x(extra: unknown key)x"},
    {R"x({"schema":1,"inputs":{},"ops":[],"outputs":[]})x",
     R"x(inputs: must be an array)x"},
    {R"x({"schema":1,"inputs":[],"ops":[],"outputs":[]})x",
     R"x(the chain has no output)x"},
    {R"x({"schema":1,"inputs":[[[[[[[[[]]]]]]]]],"ops":[],"outputs":[]})x",
     R"x(json: line 1, column 29: nested deeper than 8)x"},
    {R"x({"schema":1,"inputs":[7],"ops":[],"outputs":[]})x",
     R"x(inputs[0]: must be an object)x"},
    {R"x({"schema":1,"inputs":[{"id":1,"dtype":"f32","dims":[2]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].id: is 1, must be 0)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f64","dims":[2]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].dtype: is f64, must be f32, f16, bf16, s32, pred, e4m3, s8 or s64)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dims":[2]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].dtype: missing)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32"}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].dims: missing)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":["N"]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].dims[0]: must be an integer or "M")x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2.5]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].dims[0]: must be an integer or "M")x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[0]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0]: op 0 (input): dimension 0 is 0, must be in [1, 2^31 - 1] or M)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[18446744073709551615]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].dims[0]: must be an integer of at most 2^53)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[1,1,1,1,1,1,1]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].dims: has 7 elements, must have at most 6)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2],"strides":["2*N"]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].strides[0]: must be an integer or like "8*M")x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2],"strides":[-1]}],"ops":[],"outputs":[]})x",
     R"x(inputs[0]: op 0 (input): stride 0 is -1, must be in [0, 2^40])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2],"constant":1}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].constant: must be true or false)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2],"color":"red"}],"ops":[],"outputs":[]})x",
     R"x(inputs[0].color: unknown key)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2],"name":"é"}],"ops":[],"outputs":[]})x",
     R"x(inputs[0]: op 0 (input): name must have at most 128 characters, all of printable ASCII)x"},
    {R"x({"schema":1,"inputs":[],"ops":[{"id":0,"op":"conv3d"}],"outputs":[]})x",
     R"x(ops[0].op: op is conv3d, must be one of input scalar iota matmul unary binary compare select cast broadcast transpose reshape slice concat reduce conv2d scaled_matmul gather scatter window top_k scan random grouped_matmul all_reduce all_gather reduce_scatter)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"top_k","in":[0]}],"outputs":[]})x",
     R"x(ops[0].dims: missing)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"top_k","in":[0],"dims":["M"]}],"outputs":[]})x",
     R"x(ops[0]: op 1 (top_k): count is 0, must be in [1, 2]: a row has no more elements)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[3,2]}],"ops":[{"id":1,"op":"top_k","in":[0],"dims":[2,1]}],"outputs":[]})x",
     R"x(ops[0]: type is s32[2,1], must be s32[3,1])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"scan","in":[0]}],"outputs":[]})x",
     R"x(ops[0].kind: missing)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"scan","in":[0],"kind":"mean"}],"outputs":[]})x",
     R"x(ops[0]: op 1 (scan): kind is mean, must be sum)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"s64","dims":[]}],"ops":[{"id":1,"op":"random","in":[0],"dims":[2]}],"outputs":[]})x",
     R"x(ops[0]: op 1 (random): operands are 1, must be 2)x"},
    {R"x({"schema":1,"inputs":[],"ops":[{"id":0,"op":"conv2d"}],"outputs":[]})x",
     R"x(ops[0]: op 0 (conv2d): operands are 0, must be 2)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"kind":"same"}],"outputs":[{"value":2}]})x",
     R"x(ops[0].kind: unknown key)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"groups":3}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): groups is 3, must divide the channels of x, 16)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,8]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"groups":"two"}],"outputs":[{"value":2}]})x",
     R"x(ops[0].groups: must be an integer of at most 2^53)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"filter":"OIHW"}],"outputs":[{"value":2}]})x",
     R"x(ops[0].filter: filter is OIHW, must be one of HWIO OHWI (PyTorch: weight.to(memory_format=torch.channels_last)))x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"filter":1}],"outputs":[{"value":2}]})x",
     R"x(ops[0].filter: must be a string)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"strides":2}],"outputs":[{"value":2}]})x",
     R"x(ops[0].strides: must be an array)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"strides":[2]}],"outputs":[{"value":2}]})x",
     R"x(ops[0].strides: has 1 elements, must have 2)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"strides":[1,1,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0].strides: has 3 elements, must have at most 2)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"strides":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): stride 0 is 0, must be in [1, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"strides":[1,-2]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): stride 1 is -2, must be in [1, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"strides":[1,1025]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): stride 1 is 1025, must be in [1, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"dilations":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): dilation 0 is 0, must be in [1, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"dilations":[1,9007199254740992]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): dilation 1 is 9007199254740992, must be in [1, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"pads":[1,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0].pads: has 2 elements, must have 4)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"pads":[-1,0,0,0]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): pad top is -1, must be in [0, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"pads":[0,-1,0,0]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): pad bottom is -1, must be in [0, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"pads":[0,0,2000,0]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): pad left is 2000, must be in [0, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"pads":[0,0,0,1025]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): pad right is 1025, must be in [0, 1024])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): rank of x is 3, must be 4 ([batch, height, width, channels]))x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): rank of w is 2, must be 4 ([out, height, width, in]))x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"filter":"HWIO"}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): rank of w is 2, must be 4 ([height, width, in, out]))x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":[2,"M",6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): dimension 1 of x is M, must be constant: only the batch may be symbolic)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,"M"]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): dimension 3 of x is M, must be constant: only the batch may be symbolic)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":["M",3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): dimension 0 of w is M, must be constant: only the batch may be symbolic)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,32]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): channels of w are 32, must be those of x, 16)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[3,3,16,4]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): channels of w are 4, must be those of x, 16)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"filter":"HWIO"}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): channels of w are 3, must be those of x, 16)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,9,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): height of w is 9, must be at most 8, that of x with its padding)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,7,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): width of w is 7, must be at most 6, that of x with its padding)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"dilations":[1,4],"pads":[0,0,1,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): width of w is 3 (dilation 4: 9), must be at most 8, that of x with its padding)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"s32","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): dtype of x is s32, must be f32, f16 or bf16)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"dims":["M",8,6,4]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: type is f32[M,8,6,4], must be f32[M,6,4,4])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,1],"dtype":"bf16"}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: type is bf16[M,6,4,4], must be f32[M,6,4,4])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",8,6,16]},{"id":1,"dtype":"bf16","dims":[4,3,3,16]}],"ops":[{"id":2,"op":"conv2d","in":[0,5]}],"outputs":[{"value":2}]})x",
     R"x(ops[0]: op 2 (conv2d): w is value 5, must be in [0, 1])x"},
    {R"x({"schema":1,"inputs":[],"ops":[{"id":0,"op":"input","dtype":"f32","dims":[2]}],"outputs":[]})x",
     R"x(ops[0].op: an input belongs into inputs)x"},
    {R"x({"schema":1,"inputs":[],"ops":[{"id":0,"op":"scalar","dtype":"f32","dims":[]}],"outputs":[]})x",
     R"x(ops[0].value: missing)x"},
    {R"x({"schema":1,"inputs":[],"ops":[{"id":0,"op":"scalar","value":"nan","dtype":"f32","dims":[]}],"outputs":[]})x",
     R"x(ops[0].value: must be a number, "inf" or "-inf")x"},
    {R"x({"schema":1,"inputs":[],"ops":[{"id":0,"op":"scalar","value":1,"dtype":"f32","dims":[2]}],"outputs":[]})x",
     R"x(ops[0]: type is f32[2], must be f32[])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"compare","in":[0,0],"kind":"sinh","dtype":"pred","dims":[2]}],"outputs":[]})x",
     R"x(ops[0].kind: compare is sinh, must be one of eq ne lt le gt ge)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"unary","in":[1],"kind":"exp","dtype":"f32","dims":[2]}],"outputs":[]})x",
     R"x(ops[0]: op 1 (exp): a is value 1, must be in [0, 0])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"unary","in":[0,0],"kind":"exp","dtype":"f32","dims":[2]}],"outputs":[]})x",
     R"x(ops[0]: op 1 (exp): operands are 2, must be 1)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"unary","in":[0],"kind":"exp","dtype":"f32","dims":[3]}],"outputs":[]})x",
     R"x(ops[0]: type is f32[3], must be f32[2])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"unary","in":[0],"kind":"exp","dims":[3]}],"outputs":[]})x",
     R"x(ops[0]: type is f32[3], must be f32[2])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"unary","in":[0],"kind":"exp","dtype":"f16"}],"outputs":[]})x",
     R"x(ops[0]: type is f16[2], must be f32[2])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"cast","in":[0]}],"outputs":[]})x",
     R"x(ops[0].dtype: missing)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"broadcast","in":[0],"dtype":"f32"}],"outputs":[]})x",
     R"x(ops[0].dims: missing)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"unary","in":[0],"kind":"exp","axis":0,"dtype":"f32","dims":[2]}],"outputs":[]})x",
     R"x(ops[0].axis: unknown key)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[{"id":1,"op":"matmul","in":[0,0],"transpose_a":1,"dtype":"f32","dims":[2]}],"outputs":[]})x",
     R"x(ops[0].transpose_a: must be true or false)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[4]}],"ops":[{"id":1,"op":"slice","in":[0],"starts":[0],"limits":[9],"steps":[1],"dtype":"f32","dims":[4]}],"outputs":[]})x",
     R"x(ops[0]: op 1 (slice): limit 0 is 9, must be in [1, 4])x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[],"outputs":[{"value":3}]})x",
     R"x(output 0: value is 3, must be one of the 1 added)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],"ops":[],"outputs":[{"value":0,"alias":5}]})x",
     R"x(output 0: alias is value 5, must be an input)x"},
    {R"x({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]},{"id":1,"dtype":"f32","dims":[2]}],"ops":[],"outputs":[{"value":0}]})x",
     R"x(op 1 (input): no output needs its value)x"},
};
// clang-format on

TEST(Json, RefusesAFunctionThatIsNoneWithAllThatAre) {
  std::string names;
  for (const UnaryKind kind : UnaryKinds()) absl::StrAppend(&names, " ", NameOf(kind));
  const absl::Status status =
      ChainFromJson(R"({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],
      "ops":[{"id":1,"op":"unary","in":[0],"kind":"sinh"}],"outputs":[]})")
          .status();
  EXPECT_EQ(status.message(), absl::StrCat("ops[0].kind: unary is sinh, must be one of", names));
}

TEST(Json, RefusesBadInputWithItsMessage) {
  for (const BadInput& bad : kBadInputs) {
    const absl::Status status = ChainFromJson(bad.input).status();
    EXPECT_EQ(status.message(), bad.message) << bad.input;
  }
}

// Values, elements, strings and bytes are bounded before they are kept.
TEST(Json, RefusesWhatNoChainNeeds) {
  const auto message = [](const std::string& text) {
    return std::string(ChainFromJson(text).status().message());
  };
  std::string values, elements = R"({"schema":1,"inputs":[)";
  for (int i = 0; i < 2000; ++i) values += "1,";
  EXPECT_EQ(message(R"({"schema":1,"inputs":[{"id":[)" + values + "1]}]}"),
            "inputs[0]: has more than 1024 values");
  const std::string input = R"({"id":0,"dtype":"f32","dims":[]})";
  for (int i = 0; i < 65536; ++i) elements += input + ",";
  EXPECT_EQ(message(elements + input + "]}"), "inputs: has more than 65536 elements");
  EXPECT_EQ(message(R"({"schema":1,"inputs":[{"name":")" + std::string(5000, 'a') + "\"}]}"),
            "json: line 1, column 5032: a string has 5000 bytes, must have at most 4096");
  EXPECT_EQ(message(std::string((64 << 20) + 1, ' ')),
            "json: has 67108865 bytes, must have at most 67108864");
}

TEST(Json, RefusesEveryPrefixOfAGoodFile) {
  const std::string good =
      R"({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":["M",2]}],"ops":[],"outputs":[{"value":0}]})";
  ASSERT_TRUE(ChainFromJson(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ChainFromJson(good.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace sinter
