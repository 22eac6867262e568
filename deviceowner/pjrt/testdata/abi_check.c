// Compares abi.h with the official header of the PJRT C API. It is only compiled, never run: a mismatch does not compile.
#include "pjrt_c_api.h"

#include "../abi.h"

#define SLOT(ours, theirs)                                                                            \
  _Static_assert(offsetof(struct pj_api, functions) + 8 * ours == offsetof(PJRT_Api, theirs), "slot " #ours);

// SIZE: the part of the struct that counts ends at the same byte. LIKE: and it begins as all do.
#define END(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))
#define LIKE(ours, last, theirs)                                                                      \
  _Static_assert(END(struct ours, last) == theirs##_STRUCT_SIZE, "size of " #ours " and " #theirs);   \
  FIELD(ours, struct_size, theirs, struct_size)                                                       \
  FIELD(ours, extensions, theirs, extension_start)
#define FIELD(ours, field, theirs, name)                                                              \
  _Static_assert(offsetof(struct ours, field) == offsetof(theirs, name), #ours "." #field);           \
  _Static_assert(sizeof(((struct ours *)0)->field) == sizeof(((theirs *)0)->name), "size of " #ours "." #field);
#define PLACE(ours, field, theirs, name)                                                              \
  _Static_assert(offsetof(struct ours, field) == offsetof(theirs, name), #ours "." #field);
#define VALUE(ours, theirs) _Static_assert((int)ours == (int)theirs, #ours);

SLOT(pj_error_destroy, PJRT_Error_Destroy)
SLOT(pj_error_message, PJRT_Error_Message)
SLOT(pj_error_code, PJRT_Error_GetCode)
SLOT(pj_plugin_initialize, PJRT_Plugin_Initialize)
SLOT(pj_event_destroy, PJRT_Event_Destroy)
SLOT(pj_event_await, PJRT_Event_Await)
SLOT(pj_event_on_ready, PJRT_Event_OnReady)
SLOT(pj_client_create, PJRT_Client_Create)
SLOT(pj_client_destroy, PJRT_Client_Destroy)
SLOT(pj_client_platform_name, PJRT_Client_PlatformName)
SLOT(pj_client_platform_version, PJRT_Client_PlatformVersion)
SLOT(pj_client_devices, PJRT_Client_AddressableDevices)
SLOT(pj_client_compile, PJRT_Client_Compile)
SLOT(pj_client_upload, PJRT_Client_BufferFromHostBuffer)
SLOT(pj_description_id, PJRT_DeviceDescription_Id)
SLOT(pj_description_kind, PJRT_DeviceDescription_Kind)
SLOT(pj_device_description, PJRT_Device_GetDescription)
SLOT(pj_executable_destroy, PJRT_Executable_Destroy)
SLOT(pj_executable_result_count, PJRT_Executable_NumOutputs)
SLOT(pj_executable_serialize, PJRT_Executable_Serialize)
SLOT(pj_loaded_destroy, PJRT_LoadedExecutable_Destroy)
SLOT(pj_loaded_executable, PJRT_LoadedExecutable_GetExecutable)
SLOT(pj_loaded_execute, PJRT_LoadedExecutable_Execute)
SLOT(pj_deserialize, PJRT_Executable_DeserializeAndLoad)
SLOT(pj_buffer_destroy, PJRT_Buffer_Destroy)
SLOT(pj_buffer_type, PJRT_Buffer_ElementType)
SLOT(pj_buffer_dims, PJRT_Buffer_Dimensions)
SLOT(pj_buffer_download, PJRT_Buffer_ToHostBuffer)
SLOT(pj_topology_create, PJRT_TopologyDescription_Create)
SLOT(pj_topology_destroy, PJRT_TopologyDescription_Destroy)
SLOT(pj_topology_platform_name, PJRT_TopologyDescription_PlatformName)
SLOT(pj_topology_platform_version, PJRT_TopologyDescription_PlatformVersion)
SLOT(pj_topology_devices, PJRT_TopologyDescription_GetDeviceDescriptions)
SLOT(pj_compile_for, PJRT_Compile)
SLOT(pj_executable_result_types, PJRT_Executable_OutputElementTypes)
SLOT(pj_executable_result_dims, PJRT_Executable_OutputDimensions)
SLOT(pj_client_dma_map, PJRT_Client_DmaMap)
SLOT(pj_client_dma_unmap, PJRT_Client_DmaUnmap)

VALUE(pj_bool, PJRT_Buffer_Type_PRED)
VALUE(pj_s8, PJRT_Buffer_Type_S8)
VALUE(pj_s16, PJRT_Buffer_Type_S16)
VALUE(pj_s32, PJRT_Buffer_Type_S32)
VALUE(pj_s64, PJRT_Buffer_Type_S64)
VALUE(pj_u8, PJRT_Buffer_Type_U8)
VALUE(pj_u16, PJRT_Buffer_Type_U16)
VALUE(pj_u32, PJRT_Buffer_Type_U32)
VALUE(pj_u64, PJRT_Buffer_Type_U64)
VALUE(pj_f16, PJRT_Buffer_Type_F16)
VALUE(pj_f32, PJRT_Buffer_Type_F32)
VALUE(pj_f64, PJRT_Buffer_Type_F64)
VALUE(pj_bf16, PJRT_Buffer_Type_BF16)

FIELD(pj_api, struct_size, PJRT_Api, struct_size)
FIELD(pj_api, extensions, PJRT_Api, extension_start)
FIELD(pj_api, version, PJRT_Api, pjrt_api_version)
PLACE(pj_api, functions, PJRT_Api, PJRT_Error_Destroy)

LIKE(pj_version, minor, PJRT_Api_Version)
FIELD(pj_version, major, PJRT_Api_Version, major_version)
FIELD(pj_version, minor, PJRT_Api_Version, minor_version)

LIKE(pj_nothing, extensions, PJRT_Plugin_Initialize_Args)

#define ONE(theirs, name)           \
  LIKE(pj_one, object, theirs)      \
  FIELD(pj_one, object, theirs, name)
ONE(PJRT_Error_Destroy_Args, error)
ONE(PJRT_Event_Destroy_Args, event)
ONE(PJRT_Event_Await_Args, event)
ONE(PJRT_Client_Destroy_Args, client)
ONE(PJRT_Executable_Destroy_Args, executable)
ONE(PJRT_LoadedExecutable_Destroy_Args, executable)
ONE(PJRT_Buffer_Destroy_Args, buffer)
ONE(PJRT_TopologyDescription_Destroy_Args, topology)

LIKE(pj_on_ready, user, PJRT_Event_OnReady_Args)
FIELD(pj_on_ready, event, PJRT_Event_OnReady_Args, event)
FIELD(pj_on_ready, callback, PJRT_Event_OnReady_Args, callback)
FIELD(pj_on_ready, user, PJRT_Event_OnReady_Args, user_arg)

LIKE(pj_dma, size, PJRT_Client_DmaMap_Args)
FIELD(pj_dma, client, PJRT_Client_DmaMap_Args, client)
FIELD(pj_dma, data, PJRT_Client_DmaMap_Args, data)
FIELD(pj_dma, size, PJRT_Client_DmaMap_Args, size)
LIKE(pj_dma, data, PJRT_Client_DmaUnmap_Args)
FIELD(pj_dma, client, PJRT_Client_DmaUnmap_Args, client)
FIELD(pj_dma, data, PJRT_Client_DmaUnmap_Args, data)

#define GET(theirs, from, to)          \
  LIKE(pj_get, result, theirs)         \
  FIELD(pj_get, object, theirs, from)  \
  FIELD(pj_get, result, theirs, to)
GET(PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable, executable)
GET(PJRT_Device_GetDescription_Args, device, device_description)

#define TEXT(theirs, from, name)            \
  LIKE(pj_text, size, theirs)               \
  FIELD(pj_text, object, theirs, from)      \
  FIELD(pj_text, text, theirs, name)        \
  FIELD(pj_text, size, theirs, name##_size)
TEXT(PJRT_Error_Message_Args, error, message)
TEXT(PJRT_Client_PlatformName_Args, client, platform_name)
TEXT(PJRT_Client_PlatformVersion_Args, client, platform_version)
TEXT(PJRT_DeviceDescription_Kind_Args, device_description, device_kind)
TEXT(PJRT_TopologyDescription_PlatformName_Args, topology, platform_name)
TEXT(PJRT_TopologyDescription_PlatformVersion_Args, topology, platform_version)

#define INT(theirs, from, name)         \
  LIKE(pj_int, value, theirs)           \
  FIELD(pj_int, object, theirs, from)   \
  FIELD(pj_int, value, theirs, name)
INT(PJRT_Error_GetCode_Args, error, code)
INT(PJRT_DeviceDescription_Id_Args, device_description, id)
INT(PJRT_Buffer_ElementType_Args, buffer, type)

LIKE(pj_count, count, PJRT_Executable_NumOutputs_Args)
FIELD(pj_count, object, PJRT_Executable_NumOutputs_Args, executable)
FIELD(pj_count, count, PJRT_Executable_NumOutputs_Args, num_outputs)

#define LIST(theirs, from, name, number)  \
  LIKE(pj_list, count, theirs)            \
  FIELD(pj_list, object, theirs, from)    \
  FIELD(pj_list, items, theirs, name)     \
  FIELD(pj_list, count, theirs, number)
LIST(PJRT_Client_AddressableDevices_Args, client, addressable_devices, num_addressable_devices)
LIST(PJRT_Buffer_Dimensions_Args, buffer, dims, num_dims)
LIST(PJRT_TopologyDescription_GetDeviceDescriptions_Args, topology, descriptions, num_descriptions)

LIKE(pj_named, value_size, PJRT_NamedValue)
FIELD(pj_named, name, PJRT_NamedValue, name)
FIELD(pj_named, name_size, PJRT_NamedValue, name_size)
FIELD(pj_named, kind, PJRT_NamedValue, type)
PLACE(pj_named, value, PJRT_NamedValue, string_value)
FIELD(pj_named, value.string, PJRT_NamedValue, string_value)
FIELD(pj_named, value.number, PJRT_NamedValue, int64_value)
FIELD(pj_named, value.numbers, PJRT_NamedValue, int64_array_value)
FIELD(pj_named, value.real, PJRT_NamedValue, float_value)
FIELD(pj_named, value.flag, PJRT_NamedValue, bool_value)
FIELD(pj_named, value_size, PJRT_NamedValue, value_size)
VALUE(pj_named_string, PJRT_NamedValue_kString)
VALUE(pj_named_int64, PJRT_NamedValue_kInt64)
VALUE(pj_named_int64_list, PJRT_NamedValue_kInt64List)
VALUE(pj_named_float, PJRT_NamedValue_kFloat)
VALUE(pj_named_bool, PJRT_NamedValue_kBool)

LIKE(pj_create, key_value_try, PJRT_Client_Create_Args)
FIELD(pj_create, options, PJRT_Client_Create_Args, create_options)
FIELD(pj_create, option_count, PJRT_Client_Create_Args, num_options)
PLACE(pj_create, key_value_get, PJRT_Client_Create_Args, kv_get_callback)
FIELD(pj_create, client, PJRT_Client_Create_Args, client)
PLACE(pj_create, key_value_try, PJRT_Client_Create_Args, kv_try_get_callback)

LIKE(pj_program, format_size, PJRT_Program)
FIELD(pj_program, code, PJRT_Program, code)
FIELD(pj_program, code_size, PJRT_Program, code_size)
FIELD(pj_program, format, PJRT_Program, format)
FIELD(pj_program, format_size, PJRT_Program, format_size)

LIKE(pj_compile, loaded, PJRT_Client_Compile_Args)
FIELD(pj_compile, client, PJRT_Client_Compile_Args, client)
FIELD(pj_compile, program, PJRT_Client_Compile_Args, program)
FIELD(pj_compile, options, PJRT_Client_Compile_Args, compile_options)
FIELD(pj_compile, options_size, PJRT_Client_Compile_Args, compile_options_size)
FIELD(pj_compile, loaded, PJRT_Client_Compile_Args, executable)

LIKE(pj_topology_args, topology, PJRT_TopologyDescription_Create_Args)
FIELD(pj_topology_args, name, PJRT_TopologyDescription_Create_Args, topology_name)
FIELD(pj_topology_args, name_size, PJRT_TopologyDescription_Create_Args, topology_name_size)
FIELD(pj_topology_args, options, PJRT_TopologyDescription_Create_Args, create_options)
FIELD(pj_topology_args, option_count, PJRT_TopologyDescription_Create_Args, num_options)
FIELD(pj_topology_args, topology, PJRT_TopologyDescription_Create_Args, topology)

LIKE(pj_compile_for_args, executable, PJRT_Compile_Args)
FIELD(pj_compile_for_args, topology, PJRT_Compile_Args, topology)
FIELD(pj_compile_for_args, program, PJRT_Compile_Args, program)
FIELD(pj_compile_for_args, options, PJRT_Compile_Args, compile_options)
FIELD(pj_compile_for_args, options_size, PJRT_Compile_Args, compile_options_size)
FIELD(pj_compile_for_args, client, PJRT_Compile_Args, client)
FIELD(pj_compile_for_args, executable, PJRT_Compile_Args, executable)

VALUE(pj_during_call, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall)
VALUE(pj_until_transfer, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes)
VALUE(pj_zero_copy, PJRT_HostBufferSemantics_kImmutableZeroCopy)

LIKE(pj_upload, buffer, PJRT_Client_BufferFromHostBuffer_Args)
FIELD(pj_upload, client, PJRT_Client_BufferFromHostBuffer_Args, client)
FIELD(pj_upload, data, PJRT_Client_BufferFromHostBuffer_Args, data)
FIELD(pj_upload, type, PJRT_Client_BufferFromHostBuffer_Args, type)
FIELD(pj_upload, dims, PJRT_Client_BufferFromHostBuffer_Args, dims)
FIELD(pj_upload, dim_count, PJRT_Client_BufferFromHostBuffer_Args, num_dims)
FIELD(pj_upload, strides, PJRT_Client_BufferFromHostBuffer_Args, byte_strides)
FIELD(pj_upload, stride_count, PJRT_Client_BufferFromHostBuffer_Args, num_byte_strides)
FIELD(pj_upload, semantics, PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics)
FIELD(pj_upload, device, PJRT_Client_BufferFromHostBuffer_Args, device)
FIELD(pj_upload, memory, PJRT_Client_BufferFromHostBuffer_Args, memory)
FIELD(pj_upload, layout, PJRT_Client_BufferFromHostBuffer_Args, device_layout)
FIELD(pj_upload, host_done, PJRT_Client_BufferFromHostBuffer_Args, done_with_host_buffer)
FIELD(pj_upload, buffer, PJRT_Client_BufferFromHostBuffer_Args, buffer)

LIKE(pj_download, event, PJRT_Buffer_ToHostBuffer_Args)
FIELD(pj_download, buffer, PJRT_Buffer_ToHostBuffer_Args, src)
FIELD(pj_download, layout, PJRT_Buffer_ToHostBuffer_Args, host_layout)
FIELD(pj_download, data, PJRT_Buffer_ToHostBuffer_Args, dst)
FIELD(pj_download, size, PJRT_Buffer_ToHostBuffer_Args, dst_size)
FIELD(pj_download, event, PJRT_Buffer_ToHostBuffer_Args, event)

LIKE(pj_execute_options, incarnations, PJRT_ExecuteOptions)
PLACE(pj_execute_options, callbacks, PJRT_ExecuteOptions, send_callbacks)
PLACE(pj_execute_options, callback_counts, PJRT_ExecuteOptions, num_send_ops)
FIELD(pj_execute_options, launch, PJRT_ExecuteOptions, launch_id)
FIELD(pj_execute_options, kept, PJRT_ExecuteOptions, non_donatable_input_indices)
FIELD(pj_execute_options, kept_count, PJRT_ExecuteOptions, num_non_donatable_input_indices)
FIELD(pj_execute_options, context, PJRT_ExecuteOptions, context)
FIELD(pj_execute_options, call_location, PJRT_ExecuteOptions, call_location)
FIELD(pj_execute_options, task_count, PJRT_ExecuteOptions, num_tasks)
FIELD(pj_execute_options, tasks, PJRT_ExecuteOptions, task_ids)
FIELD(pj_execute_options, incarnations, PJRT_ExecuteOptions, incarnation_ids)

LIKE(pj_execute, device, PJRT_LoadedExecutable_Execute_Args)
FIELD(pj_execute, loaded, PJRT_LoadedExecutable_Execute_Args, executable)
FIELD(pj_execute, options, PJRT_LoadedExecutable_Execute_Args, options)
FIELD(pj_execute, arguments, PJRT_LoadedExecutable_Execute_Args, argument_lists)
FIELD(pj_execute, device_count, PJRT_LoadedExecutable_Execute_Args, num_devices)
FIELD(pj_execute, argument_count, PJRT_LoadedExecutable_Execute_Args, num_args)
FIELD(pj_execute, results, PJRT_LoadedExecutable_Execute_Args, output_lists)
FIELD(pj_execute, completions, PJRT_LoadedExecutable_Execute_Args, device_complete_events)
FIELD(pj_execute, device, PJRT_LoadedExecutable_Execute_Args, execute_device)

LIKE(pj_result_types, count, PJRT_Executable_OutputElementTypes_Args)
FIELD(pj_result_types, executable, PJRT_Executable_OutputElementTypes_Args, executable)
FIELD(pj_result_types, types, PJRT_Executable_OutputElementTypes_Args, output_types)
FIELD(pj_result_types, count, PJRT_Executable_OutputElementTypes_Args, num_output_types)

LIKE(pj_result_dims, dim_sizes, PJRT_Executable_OutputDimensions_Args)
FIELD(pj_result_dims, executable, PJRT_Executable_OutputDimensions_Args, executable)
FIELD(pj_result_dims, count, PJRT_Executable_OutputDimensions_Args, num_outputs)
FIELD(pj_result_dims, dims, PJRT_Executable_OutputDimensions_Args, dims)
FIELD(pj_result_dims, dim_sizes, PJRT_Executable_OutputDimensions_Args, dim_sizes)

LIKE(pj_serialize, free_owner, PJRT_Executable_Serialize_Args)
FIELD(pj_serialize, executable, PJRT_Executable_Serialize_Args, executable)
FIELD(pj_serialize, bytes, PJRT_Executable_Serialize_Args, serialized_bytes)
FIELD(pj_serialize, size, PJRT_Executable_Serialize_Args, serialized_bytes_size)
FIELD(pj_serialize, owner, PJRT_Executable_Serialize_Args, serialized_executable)
FIELD(pj_serialize, free_owner, PJRT_Executable_Serialize_Args, serialized_executable_deleter)

LIKE(pj_deserialize_args, options_size, PJRT_Executable_DeserializeAndLoad_Args)
FIELD(pj_deserialize_args, client, PJRT_Executable_DeserializeAndLoad_Args, client)
FIELD(pj_deserialize_args, bytes, PJRT_Executable_DeserializeAndLoad_Args, serialized_executable)
FIELD(pj_deserialize_args, size, PJRT_Executable_DeserializeAndLoad_Args, serialized_executable_size)
FIELD(pj_deserialize_args, loaded, PJRT_Executable_DeserializeAndLoad_Args, loaded_executable)
FIELD(pj_deserialize_args, options, PJRT_Executable_DeserializeAndLoad_Args, overridden_serialized_compile_options)
FIELD(pj_deserialize_args, options_size, PJRT_Executable_DeserializeAndLoad_Args, overridden_serialized_compile_options_size)
