// What nginx hashes to choose a replica: the head of the prompt. Used by octavo.conf beside it.
//
// A conversation grows at its end, so its head is everything up to the first message of the user:
// all its turns go where its pages are. HEAD limits that, so that prompts which differ only after
// a long common beginning meet on one replica as well.

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
    return `${fields.cache_salt || ''}\n${prompt.slice(0, HEAD)}`;
}

// The messages up to the first of the user.
function opening(messages) {
    const asked = messages.findIndex((message) => message && message.role === 'user');
    return JSON.stringify(asked < 0 ? messages : messages.slice(0, asked + 1));
}

// A prompt is a text, token ids, or a list of either: then the first one counts.
function first(prompt) {
    if (typeof prompt === 'string') {
        return prompt;
    }
    const several = Array.isArray(prompt) && typeof prompt[0] !== 'number';
    return several ? first(prompt[0]) : JSON.stringify(prompt || '');
}

export default { key };
