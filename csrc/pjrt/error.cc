#include "pjrt/error.h"

#include "pjrt/args.h"

namespace torch_tpu::pjrt {

const char* code_name(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_OK:
      return "OK";
    case PJRT_Error_Code_CANCELLED:
      return "CANCELLED";
    case PJRT_Error_Code_UNKNOWN:
      return "UNKNOWN";
    case PJRT_Error_Code_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case PJRT_Error_Code_DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case PJRT_Error_Code_NOT_FOUND:
      return "NOT_FOUND";
    case PJRT_Error_Code_ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case PJRT_Error_Code_PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case PJRT_Error_Code_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case PJRT_Error_Code_ABORTED:
      return "ABORTED";
    case PJRT_Error_Code_OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case PJRT_Error_Code_UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case PJRT_Error_Code_INTERNAL:
      return "INTERNAL";
    case PJRT_Error_Code_UNAVAILABLE:
      return "UNAVAILABLE";
    case PJRT_Error_Code_DATA_LOSS:
      return "DATA_LOSS";
    case PJRT_Error_Code_UNAUTHENTICATED:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN_CODE";
}

Error take_error(const PJRT_Api* api, PJRT_Error* error, const char* what) {
  TORCH_TPU_PJRT_ARGS(PJRT_Error_Message_Args, text);
  text.error = error;
  api->PJRT_Error_Message(&text);

  TORCH_TPU_PJRT_ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  PJRT_Error* second = api->PJRT_Error_GetCode(&code);

  std::string message(what);
  message.append(": ").append(text.message, text.message_size);
  message.append(" [").append(code_name(code.code)).append("]");

  // The text belongs to the error, so both go only now.
  for (PJRT_Error* spent : {error, second}) {
    if (spent == nullptr) continue;
    TORCH_TPU_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
    destroy.error = spent;
    api->PJRT_Error_Destroy(&destroy);
  }
  return Error(code.code, message);
}

void throw_error(const PJRT_Api* api, PJRT_Error* error, const char* what) { throw take_error(api, error, what); }

bool check_supported(const PJRT_Api* api, PJRT_Error* error, const char* what) {
  if (error == nullptr) return true;
  Error taken = take_error(api, error, what);
  if (taken.code() == PJRT_Error_Code_UNIMPLEMENTED) return false;
  throw taken;
}

}  // namespace torch_tpu::pjrt
