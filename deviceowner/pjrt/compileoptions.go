package pjrt

import "google.golang.org/protobuf/encoding/protowire"

// compileOptions returns a CompileOptionsProto for one device, written by hand since XLA's generated messages are large and
// only these fields matter here. Everything that is left out has the meaning of its default.
//
//	CompileOptionsProto.executable_build_options (3), an ExecutableBuildOptionsProto:
//	    device_ordinal     (1)  -1: none; the assignment below says it
//	    num_replicas       (4)   1
//	    num_partitions     (5)   1
//	    device_assignment  (9)  a DeviceAssignmentProto:
//	        replica_count       (1)  1
//	        computation_count   (2)  1
//	        computation_devices (3)  one ComputationDevice: replica_device_ids (1) = [device]
//
// compile_portable_executable (4) stays false: the program is bound to the device that is named.
func compileOptions(device int) []byte {
	ids := protowire.AppendVarint(nil, uint64(device))
	var row []byte
	row = protowire.AppendTag(row, 1, protowire.BytesType) // a packed list
	row = protowire.AppendBytes(row, ids)

	var assignment []byte
	assignment = appendNumber(assignment, 1, 1)
	assignment = appendNumber(assignment, 2, 1)
	assignment = protowire.AppendTag(assignment, 3, protowire.BytesType)
	assignment = protowire.AppendBytes(assignment, row)

	var build []byte
	build = appendNumber(build, 1, -1)
	build = appendNumber(build, 4, 1)
	build = appendNumber(build, 5, 1)
	build = protowire.AppendTag(build, 9, protowire.BytesType)
	build = protowire.AppendBytes(build, assignment)

	return protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), build)
}

func appendNumber(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}
