package predict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// OpenJSONLines opens a file with one JSON object a line.
func OpenJSONLines(name string, s *Schema) (Source, error) {
	p := newJSONParser(s)
	return openLines(name, s, p.parse)
}

// jsonParser reads one example. Each field is read as numbers and put where the schema says.
type jsonParser struct {
	schema *Schema
	place  map[string]int // table, or len(Tables) + dense input
	seen   []bool
}

func newJSONParser(s *Schema) *jsonParser {
	p := &jsonParser{schema: s, place: map[string]int{}, seen: make([]bool, len(s.Tables)+len(s.Dense))}
	for i, t := range s.Tables {
		p.place[t.Name] = i
	}
	for i, d := range s.Dense {
		p.place[d.Name] = len(s.Tables) + i
	}
	return p
}

func (p *jsonParser) parse(line []byte, r *rows) error {
	clear(p.seen)
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if err := wantDelim(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		key, err := next(dec)
		if err != nil {
			return err
		}
		name := key.(string) // keys of an object are strings, or Token had an error
		at, known := p.place[name]
		if !known {
			return fmt.Errorf("column %d: got field %q, want one of the model's inputs: %s", dec.InputOffset(), name, p.names())
		}
		if p.seen[at] {
			return fmt.Errorf("column %d: got field %q twice, want it once", dec.InputOffset(), name)
		}
		p.seen[at] = true
		if err := p.field(dec, name, at, r); err != nil {
			return err
		}
	}
	if err := wantDelim(dec, '}'); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("column %d: got more after the object, want the end of the line", dec.InputOffset())
	}
	for at, seen := range p.seen {
		if !seen {
			return fmt.Errorf("field %q is missing, want all of %s", p.name(at), p.names())
		}
	}
	return nil
}

// field reads one value, a number or an array of numbers.
func (p *jsonParser) field(dec *json.Decoder, name string, at int, r *rows) error {
	tok, err := next(dec)
	if err != nil {
		return err
	}
	count := 0
	add := func(tok json.Token) error {
		number, ok := tok.(json.Number)
		if !ok {
			return fmt.Errorf("column %d: got %s in field %q, want numbers", dec.InputOffset(), shown(tok), name)
		}
		count++
		if err := p.add(number.String(), at, r); err != nil {
			return fmt.Errorf("column %d: field %q: %w", dec.InputOffset(), name, err)
		}
		return nil
	}
	if tok != json.Delim('[') {
		if err := add(tok); err != nil {
			return err
		}
	} else {
		for dec.More() {
			if tok, err = next(dec); err != nil {
				return err
			}
			if err := add(tok); err != nil {
				return err
			}
		}
		if err := wantDelim(dec, ']'); err != nil {
			return err
		}
	}
	return p.checkCount(dec, name, at, count, r)
}

func (p *jsonParser) add(text string, at int, r *rows) error {
	if at < len(p.schema.Tables) {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("got %s, want an integer id", text)
		}
		r.addID(at, id)
		return nil
	}
	v, err := strconv.ParseFloat(text, 32)
	if err != nil || math.IsInf(v, 0) {
		return fmt.Errorf("got %s, want a number that float32 can hold", text)
	}
	r.addDense(at-len(p.schema.Tables), float32(v))
	return nil
}

func (p *jsonParser) checkCount(dec *json.Decoder, name string, at, count int, r *rows) error {
	if at < len(p.schema.Tables) {
		if hot := p.schema.Tables[at].Hot; hot > 0 && count != hot {
			return fmt.Errorf("column %d: got %d ids in field %q, want %d", dec.InputOffset(), count, name, hot)
		}
		r.endBag(at, count)
		return nil
	}
	if width := p.schema.Dense[at-len(p.schema.Tables)].Width; count != width {
		return fmt.Errorf("column %d: got %d numbers in field %q, want %d", dec.InputOffset(), count, name, width)
	}
	return nil
}

func (p *jsonParser) name(at int) string {
	if at < len(p.schema.Tables) {
		return p.schema.Tables[at].Name
	}
	return p.schema.Dense[at-len(p.schema.Tables)].Name
}

func (p *jsonParser) names() string {
	var s []byte
	for at := range p.seen {
		if at > 0 {
			s = append(s, ", "...)
		}
		s = strconv.AppendQuote(s, p.name(at))
	}
	return string(s)
}

func wantDelim(dec *json.Decoder, want json.Delim) error {
	tok, err := next(dec)
	if err != nil {
		return err
	}
	if tok != want {
		return fmt.Errorf("column %d: got %s, want %s", dec.InputOffset(), shown(tok), want)
	}
	return nil
}

// shown is a token as it stands in the file.
func shown(tok json.Token) string {
	switch x := tok.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%.64q", x)
	}
	return fmt.Sprint(tok)
}

// next is the next token; errors say where.
func next(dec *json.Decoder) (json.Token, error) {
	tok, err := dec.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("column %d: got broken JSON (%w), want an object", syntax.Offset, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("column %d: the line ends within the object", dec.InputOffset())
	case err != nil:
		return nil, fmt.Errorf("column %d: %w", dec.InputOffset(), err)
	}
	return tok, nil
}
