// What nginx hashes to choose a replica: the head of the prompt. Used by octavo.conf beside it.
//
// A conversation grows at its end, so its head is everything up to the first message of the user:
// all its turns go where its pages are. HEAD limits that, so that prompts which differ only after
// a long common beginning meet on one replica as well. It limits the work too, for a worker serves
// nobody else meanwhile: whatever follows the head is parsed, and not looked at.

const HEAD = 1024; // characters, about 250 tokens

function key(r) {
    let body;
    try {
        body = r.requestText;
    } catch (error) {
        return r.variables.request_id;
    }
    // Nothing to keep together: any replica will do.
    return body ? headOf(body) : r.variables.request_id;
}

function headOf(body) {
    let fields;
    try {
        fields = JSON.parse(body);
    } catch (error) {
        return body.slice(0, HEAD);
    }
    if (fields === null || typeof fields !== 'object') {
        return body.slice(0, HEAD);
    }
    const prompt = Array.isArray(fields.messages) ? opening(fields.messages) : first(fields.prompt);
    return `${written(fields.cache_salt)}\n${written(prompt)}`;
}

// The messages up to the first of the user, or as many as can be in the head.
function opening(messages) {
    const early = messages.slice(0, HEAD);
    const asked = early.findIndex((message) => message && message.role === 'user');
    return asked < 0 ? early : early.slice(0, asked + 1);
}

// A prompt is a text, token ids, or a list of either: then the first one counts.
function first(prompt) {
    const several = Array.isArray(prompt) && typeof prompt[0] !== 'number';
    return several ? first(prompt[0]) : prompt;
}

// The first HEAD characters of a value, which tell it from others.
function written(value) {
    if (typeof value === 'string') {
        return value.slice(0, HEAD);
    }
    if (value === null || typeof value !== 'object') {
        return String(value);
    }
    const isList = Array.isArray(value);
    const parts = isList ? value.slice(0, HEAD) : value;
    let text = isList ? '[' : '{';
    for (const name in parts) {
        if (text.length >= HEAD) {
            break;
        }
        text += `${isList ? '' : name.slice(0, HEAD)}:${written(parts[name])},`;
    }
    return text.slice(0, HEAD);
}

export default { key };
