package wire

import "rankd/internal/dtype"

// inferInput is what is kept of an InferInputTensor until the whole message has been read: only then it is known whether
// the request is raw or typed.
type inferInput struct {
	body  []byte // the sub-message
	typed bool   // it has contents that are not empty
}

// DecodeModelInfer reads an inference.ModelInferRequest. r must be empty (new or Reset); it aliases b until its Reset.
// Typed contents are written into r's memory, at most 8 bytes for each byte of b. Errors are *Error.
func (r *Request) DecodeModelInfer(b []byte) error {
	r.kserve = true
	f := walk("ModelInferRequest", b)
	for f.next() {
		var err error
		switch f.num {
		case 1:
			r.Model, err = f.text("model_name", MaxName)
		case 2:
			r.Version, err = f.text("model_version", MaxName)
		case 3:
			r.ID, err = f.text("id", MaxID)
		case 4:
			_, err = f.sub("parameters")
		case 5:
			var body []byte
			if body, err = f.sub("inputs"); err == nil {
				err = r.decodeInferInput(body)
			}
		case 6:
			var body []byte
			if body, err = f.sub("outputs"); err == nil {
				err = r.decodeInferOutput(body)
			}
		case 7:
			err = r.addRaw(&f)
		}
		if err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	if len(r.raws) > 0 {
		return r.pairRaws()
	}
	for i := range r.Inputs {
		if err := r.convertContents(&r.Inputs[i], r.infers[i].body); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) addRaw(f *fields) error {
	raw, err := f.sub("raw_input_contents")
	if err != nil {
		return err
	}
	if len(r.raws) == MaxTensors {
		return Errorf(ReasonCount, "decode request: got more than %d raw_input_contents, want at most %d", MaxTensors, MaxTensors)
	}
	r.raws = append(r.raws, raw)
	return nil
}

// pairRaws gives every input its raw blob.
func (r *Request) pairRaws() error {
	for i := range r.infers {
		if r.infers[i].typed {
			return Errorf(ReasonContents, "decode input %s: got typed contents beside raw_input_contents, want one of the two in a request",
				Quote(r.Inputs[i].Name))
		}
	}
	if len(r.raws) != len(r.Inputs) {
		return Errorf(ReasonContents, "decode request: got %d raw_input_contents for %d inputs, want one for each%s",
			len(r.raws), len(r.Inputs), r.firstWithoutRaw())
	}
	for i := range r.Inputs {
		t := &r.Inputs[i]
		t.Data = r.raws[i]
		if err := r.checkData(t); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) firstWithoutRaw() string {
	if len(r.raws) > len(r.Inputs) {
		return ""
	}
	return "; the first without is " + Quote(r.Inputs[len(r.raws)].Name)
}

// decodeInferInput reads all of an InferInputTensor but its contents.
func (r *Request) decodeInferInput(b []byte) error {
	t, err := r.addInput()
	if err != nil {
		return err
	}
	in := inferInput{body: b}
	from := len(r.shapes)
	var datatype []byte
	f := walk("ModelInferRequest.inputs", b)
	for f.next() {
		switch f.num {
		case 1:
			t.Name, err = f.text("name", MaxName)
		case 2:
			datatype, err = f.text("datatype", MaxName)
		case 3:
			err = r.appendDims(&f, from)
		case 4:
			_, err = f.sub("parameters")
		case 5:
			var contents []byte
			contents, err = f.sub("contents")
			in.typed = in.typed || len(contents) > 0
		}
		if err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	t.Shape = r.shapes[from:len(r.shapes):len(r.shapes)]
	if t.DType = parseDatatype(datatype); t.DType == dtype.Invalid {
		return Errorf(ReasonDType, "decode input %s: got datatype %s, want one of %s", Quote(t.Name), Quote(datatype), knownDatatypes)
	}
	r.infers = append(r.infers, in)
	return nil
}

func (r *Request) decodeInferOutput(b []byte) error {
	var name []byte
	f := walk("ModelInferRequest.outputs", b)
	for f.next() {
		var err error
		switch f.num {
		case 1:
			name, err = f.text("name", MaxName)
		case 2:
			_, err = f.sub("parameters")
		}
		if err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	return r.addOutput(name)
}
