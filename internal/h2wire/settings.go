package h2wire

import "encoding/binary"

// Identifiers of settings.
const (
	settingHeaderTable    = 0x1
	settingEnablePush     = 0x2
	settingMaxStreams     = 0x3
	settingInitialWindow  = 0x4
	settingMaxFrame       = 0x5
	settingMaxHeaderBytes = 0x6
)

// maxWindow is the largest flow-control window.
const maxWindow = 1<<31 - 1

// Settings are what one side of a connection asks of the other.
type Settings struct {
	HeaderTable    uint32 // bytes of the field table that the other side's encoder may use
	MaxStreams     uint32 // streams that the other side may have open
	InitialWindow  uint32 // bytes of a new stream's window
	MaxFrame       uint32 // bytes of the largest frame
	MaxHeaderBytes uint32 // advisory
}

// DefaultSettings hold before a SETTINGS frame.
func DefaultSettings() Settings {
	return Settings{HeaderTable: 4096, MaxStreams: 1<<32 - 1, InitialWindow: 65535, MaxFrame: DefaultMaxFrame, MaxHeaderBytes: 1<<32 - 1}
}

// Update takes the values of a SETTINGS payload; unknown ones are skipped.
func (s *Settings) Update(payload []byte) *ConnError {
	if len(payload)%6 != 0 {
		return connErrorf(ErrCodeFrameSize, "read settings: got %d bytes, want a multiple of 6", len(payload))
	}
	for ; len(payload) > 0; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case settingHeaderTable:
			s.HeaderTable = value
		case settingEnablePush:
			if value > 1 {
				return connErrorf(ErrCodeProtocol, "read settings: enable push: got %d, want 0 or 1", value)
			}
		case settingMaxStreams:
			s.MaxStreams = value
		case settingInitialWindow:
			if value > maxWindow {
				return connErrorf(ErrCodeFlowControl, "read settings: initial window: got %d, want at most %d", value, maxWindow)
			}
			s.InitialWindow = value
		case settingMaxFrame:
			if value < DefaultMaxFrame || value > 1<<24-1 {
				return connErrorf(ErrCodeProtocol, "read settings: max frame: got %d, want %d to %d", value, DefaultMaxFrame, 1<<24-1)
			}
			s.MaxFrame = value
		case settingMaxHeaderBytes:
			s.MaxHeaderBytes = value
		}
	}
	return nil
}

// Append appends a SETTINGS frame with what differs from the defaults. A client also turns pushes off.
func (s Settings) Append(dst []byte, client bool) []byte {
	start := len(dst)
	dst = AppendHeader(dst, 0, TypeSettings, 0, 0)
	add := func(id uint16, value uint32) {
		dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, id), value)
	}
	def := DefaultSettings()
	if client {
		add(settingEnablePush, 0)
	}
	for _, v := range []struct {
		id         uint16
		value, was uint32
	}{
		{settingHeaderTable, s.HeaderTable, def.HeaderTable},
		{settingMaxStreams, s.MaxStreams, def.MaxStreams},
		{settingInitialWindow, s.InitialWindow, def.InitialWindow},
		{settingMaxFrame, s.MaxFrame, def.MaxFrame},
		{settingMaxHeaderBytes, s.MaxHeaderBytes, def.MaxHeaderBytes},
	} {
		if v.value != v.was {
			add(v.id, v.value)
		}
	}
	dst[start+2] = byte(len(dst) - start - HeaderBytes) // at most 36
	return dst
}

// AppendSettingsAck appends the answer to a SETTINGS frame.
func AppendSettingsAck(dst []byte) []byte { return AppendHeader(dst, 0, TypeSettings, FlagAck, 0) }
