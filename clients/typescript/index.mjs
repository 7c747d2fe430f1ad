// Written by scripts/write-typescript-client from the service's OpenAPI document. Do not edit.

const OPERATIONS = {
  decide: ["POST", "/v1/{campaign}/decide"],
  decide_batch: ["POST", "/v1/{campaign}/decide/batch"],
  activate: ["POST", "/v1/{campaign}/activate"],
  shown: ["GET", "/v1/{campaign}/shown.gif"],
  reward: ["POST", "/v1/{campaign}/reward"],
  reward_batch: ["POST", "/v1/{campaign}/reward/batch"],
  index: ["GET", "/"],
  healthz: ["GET", "/healthz"],
  readyz: ["GET", "/readyz"],
  openapi: ["GET", "/openapi.json"],
  metrics: ["GET", "/metrics"],
  list_campaigns_of_all: ["GET", "/v1/campaigns"],
  create_campaign_of_all: ["POST", "/v1/campaigns"],
  list_keys_of_all: ["GET", "/v1/keys"],
  make_key_of_all: ["POST", "/v1/keys"],
  list_keys: ["GET", "/v1/{campaign}/keys"],
  make_key: ["POST", "/v1/{campaign}/keys"],
  remove_key_of_all: ["DELETE", "/v1/keys/{key}"],
  remove_key: ["DELETE", "/v1/{campaign}/keys/{key}"],
  list_signing_keys_of_all: ["GET", "/v1/signing-keys"],
  rotate_signing_key_of_all: ["POST", "/v1/signing-keys"],
  retire_signing_key_of_all: ["DELETE", "/v1/signing-keys/{key}"],
  show_campaign: ["GET", "/v1/{campaign}"],
  change_campaign: ["PATCH", "/v1/{campaign}"],
  delete_campaign: ["DELETE", "/v1/{campaign}"],
  archive_campaign: ["POST", "/v1/{campaign}/archive"],
  restore_campaign: ["POST", "/v1/{campaign}/restore"],
  add_contexts: ["POST", "/v1/{campaign}/contexts"],
  add_actions: ["POST", "/v1/{campaign}/actions"],
  show_policy: ["GET", "/v1/{campaign}/policy"],
  list_policies: ["GET", "/v1/{campaign}/policy/versions"],
  show_version: ["GET", "/v1/{campaign}/policy/{version}"],
  activate_version: ["POST", "/v1/{campaign}/policy/{version}/activate"],
  learn: ["POST", "/v1/{campaign}/learn"],
  list_jobs: ["GET", "/v1/{campaign}/learn"],
  show_job: ["GET", "/v1/{campaign}/learn/{job}"],
  status: ["GET", "/v1/{campaign}/status"],
  report: ["GET", "/v1/{campaign}/report"],
  list_reports: ["GET", "/v1/{campaign}/reports"],
  show_report: ["GET", "/v1/{campaign}/reports/{day}"],
  audit: ["GET", "/v1/{campaign}/audit"],
  export: ["GET", "/v1/{campaign}/export"],
  list_decisions: ["GET", "/v1/{campaign}/decisions"],
  forget_user: ["DELETE", "/v1/{campaign}/users"],
  explain_decision: ["GET", "/v1/{campaign}/decisions/{decision}/explain"],
};

const LATER = [429, 502, 503, 504];

/** An error response of the service. */
export class ServiceError extends Error {
  constructor(status, code, message) {
    super(message);
    this.name = "ServiceError";
    this.status = status;
    this.code = code;
  }
}

/** A client of one campaign. Requests without a response, or with status 429 or 503, are sent again. */
export class Client {
  constructor(address, campaign, { key, tries = 5, fetch = globalThis.fetch } = {}) {
    Object.assign(this, { address: address.replace(/[/]$/, ""), campaign, key, tries, fetch });
  }

  /** Calls any route by its name in the OpenAPI document. */
  async call(operation, { path = {}, query = {}, body } = {}) {
    const [method, template] = OPERATIONS[operation];
    const names = { campaign: this.campaign, ...path };
    const route = template.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(names[name]));
    const search = new URLSearchParams(query).toString();
    const url = `${this.address}${route}${search && `?${search}`}`;
    const headers = { "content-type": "application/json" };
    if (this.key) headers.authorization = `Bearer ${this.key}`;
    const request = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
    for (let tried = 1; ; tried += 1) {
      let response;
      try {
        response = await this.fetch.call(undefined, url, request);
      } catch (error) {
        if (tried >= this.tries) throw new ServiceError(0, "unreachable", String(error));
      }
      if (response && !(LATER.includes(response.status) && tried < this.tries)) return read(response);
      await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** (tried - 1) * (0.5 + Math.random())));
    }
  }

  /**
   * Returns a decision, for a context or for attributes. It has an idempotency key, so that it counts once however
   * often it is sent.
   */
  decide(user, context, more = {}) {
    const where = typeof context === "object" ? { attributes: context } : { context };
    const body = { user, ...where, idempotency_key: crypto.randomUUID(), ...more };
    return this.call("decide", { body });
  }

  /** Reports a reward; it is durable when this resolves. */
  reward(token, reward, more = {}) {
    return this.call("reward", { body: { token, reward, ...more } });
  }

  /** Reports that a deferred decision was shown. */
  activate(token) {
    return this.call("activate", { body: { token } });
  }

  /** The address of an image that reports the same when a page loads it. */
  pixel(token) {
    return `${this.address}/v1/${this.campaign}/shown.gif?token=${encodeURIComponent(token)}`;
  }
}

async function read(response) {
  const text = await response.text();
  let value = text;
  try {
    value = JSON.parse(text);
  } catch {
    // Metrics are text.
  }
  if (response.ok) return value;
  const { code = "no_service", message = `status ${response.status}` } = value.error ?? {};
  throw new ServiceError(response.status, code, message);
}
